//! `acpd login` and `acpd logout`: ask for a provider's key at the terminal, check it, and store it
//! in a file that only its owner can read. The daemon reads the file with its next request. `mcp`
//! logs in to MCP servers.

#![allow(clippy::print_stdout, reason = "this is what the user reads")]

mod mcp;

use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::Arc;
use std::thread;

use anyhow::{Context, bail};
use domain::Environment;
use domain::similar_names;
use models::{KeyStore, Providers, Rehearsal, Secret};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level;

use crate::cli::{LoginArgs, LogoutArgs};
use crate::commands::{Ending, agents};
use crate::config;
use crate::config::ResolvedNetwork;
use crate::paths::{Paths, private_folder};

pub fn run(places: &Paths, args: &LoginArgs) -> anyhow::Result<Ending> {
    if let Some(agent) = &args.agent {
        return agents::log_in(places, agent, args.method.as_deref());
    }
    if let Some(server) = &args.mcp {
        return mcp::log_in(places, server, &args.scope, !args.no_browser);
    }
    let config = config::load(&places.config, crate::launch::environment(), &[])?;
    let accounts = accounts(places)?;
    ResolvedNetwork::of(&config.network, &crate::launch::environment().collect(), &Environment::default()).install();
    let providers = Providers::new(&config.models, Some(&accounts), vec![Arc::new(Rehearsal::new())])?;
    let names = providers.names();
    let provider = match &args.provider {
        Some(named) => named.clone(),
        None => ask(&format!("Provider ({}): ", names.join(", ")))?,
    };
    if !names.contains(&provider) {
        let near = similar_names::did_you_mean(&provider, names.iter().map(String::as_str));
        bail!(
            "there is no provider `{provider}`; {}",
            near.unwrap_or_else(|| format!("the providers are {}", names.join(", ")))
        );
    }
    let key = Secret::new(ask_hidden(&format!("Key for {provider}: "))?);
    if !args.unchecked {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let checked = runtime.block_on(providers.check(&provider, &key));
        let models = checked.context("the key was not stored; --unchecked stores it without a check")?;
        println!("{provider} accepts the key and offers {models} models");
    }
    let path = accounts.store(&provider, &key)?;
    println!("stored in {}", path.display());
    Ok(Ending::Done)
}

pub fn forget(places: &Paths, args: &LogoutArgs) -> anyhow::Result<Ending> {
    if let Some(server) = &args.mcp {
        return mcp::log_out(places, server);
    }
    let accounts = accounts(places)?;
    let known = accounts.names();
    let list = known.join(", ");
    let names = match &args.provider {
        Some(named) if known.contains(named) => vec![named.clone()],
        Some(named) if known.is_empty() => bail!("no key is stored for `{named}`, nor for any other provider"),
        Some(named) => bail!("no key is stored for `{named}`; there are keys for {list}"),
        None if known.is_empty() => {
            println!("no key is stored");
            return Ok(Ending::Done);
        }
        None if args.all => known,
        None if !io::stdin().is_terminal() => bail!("name a provider ({list}), or remove all keys with --all"),
        None => match ask(&format!("Remove the stored keys of {list}? [y/N] ")) {
            Ok(answer) if ["y", "yes"].contains(&answer.to_lowercase().as_str()) => known,
            Ok(_) | Err(_) => {
                println!("nothing was removed");
                return Ok(Ending::Cancelled);
            }
        },
    };
    for name in names {
        accounts.forget(&name)?;
        println!("{name}: forgotten");
    }
    Ok(Ending::Done)
}

fn accounts(places: &Paths) -> anyhow::Result<KeyStore> {
    private_folder(&places.state)?;
    Ok(KeyStore::new(places.keys()))
}

fn ask(question: &str) -> anyhow::Result<String> {
    if io::stdin().is_terminal() {
        eprint!("{question}");
        io::stderr().flush()?;
    }
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).context("cannot read from stdin")?;
    match line.trim() {
        "" => bail!("nothing was typed"),
        given => Ok(given.to_owned()),
    }
}

/// Asks without echoing the input. The terminal echoes again afterwards, even after an error or a
/// signal.
fn ask_hidden(question: &str) -> anyhow::Result<String> {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        return ask(question);
    }
    let before = tcgetattr(&stdin).context("cannot use the terminal")?;
    let mut hidden = before.clone();
    hidden.local_modes.remove(LocalModes::ECHO);
    show_again_on_signals(before.clone())?;
    tcsetattr(&stdin, OptionalActions::Now, &hidden).context("cannot hide what is typed")?;
    let answer = ask(question);
    tcsetattr(&stdin, OptionalActions::Now, &before).context("cannot restore the terminal")?;
    eprintln!();
    answer
}

/// Restores the terminal when a signal ends the program. The handler stays installed, because the
/// program ends soon.
fn show_again_on_signals(before: Termios) -> anyhow::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT]).context("cannot watch for signals")?;
    thread::spawn(move || {
        for signal in signals.forever() {
            // If the terminal is gone, there is nothing to restore; the signal still ends the
            // program.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before);
            let _ = low_level::emulate_default_handler(signal);
        }
    });
    Ok(())
}
