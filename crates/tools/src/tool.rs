//! What a tool is inside this crate, and the few words that all of them share.

use std::sync::Arc;

use domain::tool::{Job, ToolSpec};
use domain::{Access, CallSite, Mode, ToolKind};
use serde_json::Value;

use crate::Settings;
use crate::background::Background;
use crate::confine::{Bounds, Denial, Roots};
use crate::registry::FileWrites;
use crate::rules::{Rules, Shows, Veil};

/// One tool. It is stateless: everything that a call needs is in `Call`.
pub(crate) trait Tool: Send + Sync + 'static {
    fn name(&self) -> &'static str;

    fn kind(&self) -> ToolKind;

    /// The first word of a title, such as "Read".
    fn verb(&self) -> &'static str;

    fn spec(&self, settings: &Settings) -> ToolSpec;

    /// Says what the call would do. May block: the registry runs it off the actors' threads.
    fn plan(&self, call: Call) -> Result<Box<dyn Job>, Refused>;
}

/// One request on its way to becoming a job.
pub(crate) struct Call {
    pub(crate) input: Value,
    pub(crate) site: Arc<CallSite>,
    /// Those of the session's folder.
    pub(crate) rules: Rules,
    pub(crate) settings: Arc<Settings>,
    pub(crate) background: Arc<Background>,
    pub(crate) bounds: Arc<Bounds>,
}

impl Call {
    pub(crate) fn roots(&self) -> Result<Roots, Denial> {
        Roots::open(&self.site, &self.bounds)
    }

    /// How a call that changes files asks: as usual, but in the sandbox as the operator wants it.
    pub(crate) fn write_access(&self, usual: Access) -> Access {
        match self.settings.sandbox_file_writes {
            FileWrites::Ask if self.site.mode == Mode::Sandbox => Access::AskEveryTime,
            FileWrites::Allow | FileWrites::Ask | FileWrites::Deny => usual,
        }
    }

    /// What the tool must leave out.
    pub(crate) fn veil(&self, tool: &dyn Tool, shows: Shows) -> Veil {
        self.rules.veil(tool.name(), tool.kind(), shows)
    }
}

/// Why a call is not planned, for the model to act on.
#[derive(Debug)]
pub(crate) struct Refused(pub(crate) String);

impl From<Denial> for Refused {
    fn from(denial: Denial) -> Self {
        Self(denial.to_string())
    }
}

/// At most `limit` characters, with an ellipsis if there were more.
pub(crate) fn cut(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// As many whole lines as fit into `limit` bytes, each with its end, and their number.
pub(crate) fn fill(lines: impl IntoIterator<Item = String>, limit: usize) -> (String, usize) {
    let (mut text, mut shown) = (String::new(), 0);
    for line in lines {
        if text.len() + line.len() + 1 > limit {
            break;
        }
        text.push_str(&line);
        text.push('\n');
        shown += 1;
    }
    (text, shown)
}

/// "1 line", "3 lines".
pub(crate) fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// What is said of files that rules hide; None if there are none.
pub(crate) fn left_out(hidden: usize, one: &str, more: &str) -> Option<String> {
    let noun = if hidden == 1 { one } else { more };
    (hidden > 0).then(|| format!("[{hidden} {noun} left out: a rule of the user's configuration forbids showing them]"))
}

/// A size as people read it.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KB", "MB", "GB", "TB"];
    if bytes < 1024 {
        return format!("{bytes} bytes");
    }
    let mut amount = bytes as f64 / 1024.0;
    let mut unit = 0;
    while amount >= 1024.0 && unit + 1 < UNITS.len() {
        amount /= 1024.0;
        unit += 1;
    }
    format!("{amount:.1} {}", UNITS[unit])
}
