//! Decides where the prompt comes from, and which files are sent with it.

use std::io::{self, IsTerminal, Read};
use std::path::Path;

use anyhow::{Context, bail};
use domain::resource_link::file_uri;
use serde_json::{Value, json};

use super::attachments;
use crate::cli::AskArgs;

pub(super) enum PromptSource {
    /// One prompt, as blocks.
    Once(Vec<Value>),
    /// A conversation at the terminal.
    Terminal,
}

impl PromptSource {
    /// Chooses the source: a text with stdin as its context, stdin alone, or a conversation.
    pub(super) fn choose(args: &AskArgs) -> anyhow::Result<Self> {
        let words = args.text.join(" ");
        let attached = attached(args)?;
        if io::stdin().is_terminal() {
            if words.trim().is_empty() && attached.is_empty() {
                return Ok(Self::Terminal);
            }
            return Self::once(attached, &words);
        }
        let mut given = Vec::new();
        io::stdin().read_to_end(&mut given).context("cannot read stdin")?;
        let given = String::from_utf8_lossy(&given);
        match (words.trim().is_empty(), given.trim().is_empty()) {
            (true, true) => bail!("there is no prompt; give a text, or write it to stdin"),
            (true, false) => Self::once(attached, &given),
            (false, true) => Self::once(attached, &words),
            (false, false) => Self::once([attached, vec![context(&given)]].concat(), &words),
        }
    }

    /// Builds one prompt: the attached blocks, the files that the text names, and the text.
    fn once(attached: Vec<Value>, words: &str) -> anyhow::Result<Self> {
        if words.trim().is_empty() {
            bail!("there is no prompt; give a text with --file and --image");
        }
        Ok(Self::Once([attached, attachments::blocks(words)?].concat()))
    }
}

/// Reads the files and images that the command line names.
fn attached(args: &AskArgs) -> anyhow::Result<Vec<Value>> {
    let files = args.file.iter().map(|path| attachments::file(path));
    files.chain(args.image.iter().map(|path| attachments::image(path))).collect()
}

pub(super) fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn context(text: &str) -> Value {
    let uri = file_uri(Path::new("/dev/stdin"));
    json!({ "type": "resource", "resource": { "uri": uri, "mimeType": "text/plain", "text": text } })
}
