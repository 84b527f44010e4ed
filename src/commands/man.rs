//! `acpd man`: writes the man pages, from the same definitions as the help.

use std::fs;
use std::io::{self, Write};

use anyhow::Context;
use clap::CommandFactory;

use super::Ending;
use crate::cli::{Cli, Man};

pub fn run(args: &Man) -> anyhow::Result<Ending> {
    let mut command = Cli::command();
    match &args.out {
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(command).render(&mut page)?;
            io::stdout().lock().write_all(&page)?;
        }
        Some(folder) => {
            let doing = || format!("cannot write man pages into {}", folder.display());
            fs::create_dir_all(folder).with_context(doing)?;
            // Built first: this adds the global options to every page.
            command.build();
            clap_mangen::generate_to(command, folder).with_context(doing)?;
        }
    }
    Ok(Ending::Done)
}
