//! Permission rules of the operator and of projects. They decide which calls run, ask or are
//! denied, by the tool and by what the call touches.
//!
//! A rule is a text such as `bash(git push)`, `edit(src/**)`, `web_fetch(*.example.com)` or
//! `mcp__github__*`:
//!
//! - The tool is its name, with `*` for any letters, or its kind: `read`, `search`, `edit`,
//!   `delete`, `move`, `execute`, `fetch`. A rule about `edit` that denies or asks covers `delete`,
//!   `move` and changes by `memory`, and one about `read` covers `move` of the same file, because
//!   the file could be read under its new name.
//! - For `bash` the pattern is the first words of a command, or a glob of the whole command if it
//!   contains `*`, `?` or `[`. A rule that denies or asks applies to every program that the command
//!   would run, see `command`. Text for a running command (`bash_input`) may be commands for a
//!   shell, so such a rule at least asks about it.
//! - For tools that name files it is a glob of the path. A relative glob matches at any depth, and
//!   one that matches a folder covers its contents. A search is matched by the folder that it
//!   searches, and skips files that may not be read, see `HiddenFiles`. A rule about reading asks
//!   about a command that plainly names such a file.
//! - For `web_fetch` it is a glob of the host.
//!
//! Pure: knows the cards of calls, but neither files nor sessions.

mod check;
mod command;
mod hidden_files;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::permission::RuleTexts;
use domain::text::cut;
use domain::tool::{APPLY_PATCH, BASH, BASH_INPUT, MEMORY};
use domain::{ToolCard, ToolContent, ToolKind, Verdict};
use globset::GlobMatcher;
use serde::Deserialize;

use crate::glob::{BadGlob, StarMatches, glob};
#[cfg(test)]
pub(crate) use command::CommandRule;
pub use hidden_files::{Exposure, HiddenFiles};

/// The most characters of a rule in a message about it.
const LONGEST_SHOWN: usize = 200;

/// The rules that apply to a session. Denying takes precedence over asking, and asking over
/// allowing.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rules {
    pub allow: Vec<Rule>,
    pub ask: Vec<Rule>,
    pub deny: Vec<Rule>,
}

impl Rules {
    /// Returns the verdict about a call; None if no rule matches. `real` is the same call with the
    /// symlinks in its paths resolved, if that makes a difference. A rule that denies or asks may
    /// match either. To be allowed, both must be covered by allowing rules, because a link in an
    /// allowed folder may lead out of it.
    pub fn verdict(&self, card: &ToolCard, real: Option<&ToolCard>) -> Option<Verdict> {
        let cards = targets(card, real);
        let against = |rules: &[Rule]| strongest(rules, &cards);
        let allowed = || {
            let mut cards = cards.iter();
            cards.all(|(card, target)| self.allow.iter().any(|rule| rule.fits_all(card, target)))
        };
        match (against(&self.deny), against(&self.ask)) {
            (Match::Yes, _) => Some(Verdict::Deny),
            (Match::Maybe, _) | (Match::No, Match::Maybe | Match::Yes) => Some(Verdict::Ask),
            (Match::No, Match::No) if allowed() => Some(Verdict::Run),
            (Match::No, Match::No) => None,
        }
    }

    /// Returns whether a rule denies a call, or may do so: for calls about which no question can be
    /// asked, a doubt is a denial. Rules that ask do not count.
    pub fn may_deny(&self, card: &ToolCard, real: Option<&ToolCard>) -> bool {
        strongest(&self.deny, &targets(card, real)) != Match::No
    }

    /// Returns the verdict about reading a file where no question can be asked: `Deny`, `Ask`, or
    /// None. `names` are all names of the file.
    pub fn reading_verdict(&self, names: &[&Path]) -> Option<Verdict> {
        let applies = |rule: &Rule| {
            rule.is_about("read_file", ToolKind::Read)
                && rule.pattern.as_ref().is_none_or(|pattern| names.iter().any(|name| pattern.covers(name)))
        };
        if self.deny.iter().any(applies) {
            return Some(Verdict::Deny);
        }
        self.ask.iter().any(applies).then_some(Verdict::Ask)
    }

    /// Returns whether a rule denies or asks about fetching from this host. For redirects, where no
    /// question can be asked.
    pub fn forbids_host(&self, tool: &str, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        let applies = |rule: &Rule| {
            rule.is_about(tool, ToolKind::Fetch)
                && rule.pattern.as_ref().is_none_or(|pattern| pattern.host.is_match(&host))
        };
        self.deny.iter().chain(&self.ask).any(applies)
    }

    pub fn texts(&self) -> RuleTexts {
        let texts = |rules: &[Rule]| rules.iter().map(|rule| rule.text.clone()).collect();
        RuleTexts { allow: texts(&self.allow), ask: texts(&self.ask), deny: texts(&self.deny) }
    }

    /// Adds those of the rules that are not present yet.
    pub fn extend_with_new(&mut self, more: Rules) {
        let add = |known: &mut Vec<Rule>, more: Vec<Rule>| {
            for rule in more {
                if !known.iter().any(|known| known.text == rule.text) {
                    known.push(rule);
                }
            }
        };
        add(&mut self.allow, more.allow);
        add(&mut self.ask, more.ask);
        add(&mut self.deny, more.deny);
    }

    /// Adds the rules of another source, such as the project's to the operator's.
    pub fn extend(&mut self, more: Rules) {
        self.allow.extend(more.allow);
        self.ask.extend(more.ask);
        self.deny.extend(more.deny);
    }
}

/// The operator's rules: those that apply everywhere, and those for single projects.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Permissions {
    pub allow: Vec<Rule>,
    pub ask: Vec<Rule>,
    pub deny: Vec<Rule>,
    pub project: Vec<ProjectRules>,
}

/// Additional rules for sessions in a folder or below it. They are part of the operator's
/// configuration and not of the project, which may come from anyone.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProjectRules {
    pub folder: PathBuf,
    /// The folder without symlinks.
    #[serde(skip)]
    real: Option<PathBuf>,
    #[serde(default)]
    pub allow: Vec<Rule>,
    #[serde(default)]
    pub ask: Vec<Rule>,
    #[serde(default)]
    pub deny: Vec<Rule>,
}

impl Permissions {
    /// Resolves the symlinks in the folders of projects. `real_path` does the lookup, and may
    /// block.
    pub fn resolve(&mut self, real_path: impl Fn(&Path) -> Option<PathBuf>) {
        for project in &mut self.project {
            project.real = real_path(&project.folder);
        }
    }

    /// Returns the rules for a session in this folder, given as the session names it and without
    /// symlinks.
    pub fn within(&self, cwd: &Path, real: &Path) -> Rules {
        let mut rules = Rules { allow: self.allow.clone(), ask: self.ask.clone(), deny: self.deny.clone() };
        for ProjectRules { folder, real: real_folder, allow, ask, deny } in &self.project {
            let is_in = |folder: &Path| cwd.starts_with(folder) || real.starts_with(folder);
            if is_in(folder) || real_folder.as_deref().is_some_and(is_in) {
                rules.extend(Rules { allow: allow.clone(), ask: ask.clone(), deny: deny.clone() });
            }
        }
        rules
    }
}

/// Returns the cards of one call with their targets, which are computed once for all rules, because
/// parsing a command takes time.
fn targets<'a>(card: &'a ToolCard, real: Option<&'a ToolCard>) -> Vec<(&'a ToolCard, CallTarget<'a>)> {
    std::iter::once(card).chain(real).map(|card| (card, call_target(card))).collect()
}

/// Returns the strongest match of rules that deny or ask with any of the cards of one call.
fn strongest(rules: &[Rule], cards: &[(&ToolCard, CallTarget<'_>)]) -> Match {
    let fits = |rule: &Rule| cards.iter().map(|(card, target)| rule.fits_a_part(card, target)).max();
    rules.iter().filter_map(fits).max().unwrap_or(Match::No)
}

/// Whether a rule matches a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Match {
    No,
    /// The text does not show whether it matches; only running the command would.
    Maybe,
    Yes,
}

/// One parsed rule. Clones share the compiled globs, because a cloned glob starts with empty
/// caches, and filling them for hundreds of rules takes longer than matching.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub struct Rule {
    text: String,
    tool: Tool,
    pattern: Option<Arc<Pattern>>,
}

/// The reason why a text is not a rule.
#[derive(Debug, thiserror::Error)]
pub enum BadRule {
    #[error("the rule `{0}` must look like `tool` or `tool(pattern)`")]
    Shape(String),
    #[error("the rule `{0}` has a pattern that starts with `~`; write the path out")]
    Home(String),
    #[error("the rule `{rule}` has a bad pattern: {reason}")]
    Glob { rule: String, reason: String },
    #[error("the rule `{rule}` can never match: there is no tool `{tool}`; {advice}")]
    NoSuchTool { rule: String, tool: String, advice: String },
    #[error("the rule `{rule}` can never match: {reason}")]
    NeverMatches { rule: String, reason: &'static str },
}

#[derive(Clone, Debug)]
enum Tool {
    Kind(ToolKind),
    Name(Arc<GlobMatcher>),
}

/// A pattern compiled for each of its three meanings. The tool of the call decides which one
/// applies.
#[derive(Clone, Debug)]
struct Pattern {
    command: command::CommandPattern,
    path: GlobMatcher,
    host: GlobMatcher,
}

impl TryFrom<String> for Rule {
    type Error = BadRule;

    fn try_from(text: String) -> Result<Self, BadRule> {
        let trimmed = text.trim();
        let (tool, pattern) = match trimmed.split_once('(') {
            None => (trimmed, None),
            Some((tool, rest)) => match rest.strip_suffix(')') {
                Some(pattern) => (tool.trim(), Some(pattern.trim())),
                None => return Err(BadRule::Shape(text)),
            },
        };
        if tool.is_empty() || tool.contains([' ', ')']) || pattern == Some("") {
            return Err(BadRule::Shape(text));
        }
        let bad = |error: BadGlob| BadRule::Glob { rule: cut(&text, LONGEST_SHOWN), reason: error.to_string() };
        let name = tool;
        let tool = match kind(name) {
            Some(kind) => Tool::Kind(kind),
            None => Tool::Name(Arc::new(glob(name, StarMatches::Anything).map_err(bad)?)),
        };
        tool.check(&text, name, pattern)?;
        let pattern = match pattern {
            // These patterns match everything, like no pattern.
            None | Some("*" | "**") => None,
            Some(pattern) if pattern.starts_with('~') => return Err(BadRule::Home(text)),
            Some(pattern) => Some(Arc::new(Pattern {
                command: command::CommandPattern::new(pattern).map_err(bad)?,
                path: glob(&anywhere(pattern), StarMatches::WithinPart).map_err(bad)?,
                host: glob(&pattern.to_ascii_lowercase(), StarMatches::Anything).map_err(bad)?,
            })),
        };
        Ok(Self { text, tool, pattern })
    }
}

fn kind(word: &str) -> Option<ToolKind> {
    match word {
        "read" => Some(ToolKind::Read),
        "search" => Some(ToolKind::Search),
        "edit" => Some(ToolKind::Edit),
        "delete" => Some(ToolKind::Delete),
        "move" => Some(ToolKind::Move),
        "execute" => Some(ToolKind::Execute),
        "fetch" => Some(ToolKind::Fetch),
        _ => None,
    }
}

fn anywhere(pattern: &str) -> String {
    let pattern = pattern.trim_start_matches("./").trim_end_matches('/');
    if pattern.starts_with('/') { pattern.to_owned() } else { format!("**/{pattern}") }
}

impl Rule {
    /// Returns the rule as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    fn is_about(&self, tool: &str, kind: ToolKind) -> bool {
        self.tool.is(tool, kind)
    }

    /// Returns whether a rule that denies or asks is about this tool. One about editing also covers
    /// deleting, moving and changes of the memory, which is a file. For a rule that allows this
    /// does not hold: permission to edit is not permission to delete.
    fn is_against(&self, tool: &str, kind: ToolKind) -> bool {
        let changes_files = matches!(kind, ToolKind::Delete | ToolKind::Move) || changes_memory(tool, kind);
        self.is_about(tool, kind) || (changes_files && self.is_about(tool, ToolKind::Edit))
    }

    /// Returns whether the rule covers everything that the call touches. A rule that allows must.
    fn fits_all(&self, card: &ToolCard, target: &CallTarget<'_>) -> bool {
        if card.tool == APPLY_PATCH && card.kind != ToolKind::Edit && matches!(self.tool, Tool::Kind(_)) {
            // The patch deletes or moves files and may change others, so no rule about one kind of
            // tool covers all of it.
            return false;
        }
        let Some(pattern) = self.pattern.as_ref() else { return self.is_about(&card.tool, card.kind) };
        self.is_about(&card.tool, card.kind)
            && match target {
                CallTarget::Command(command) => pattern.command.fits_all(command),
                // What a program does with its input is unknown.
                CallTarget::Input(_) => false,
                CallTarget::Host(host) => pattern.host.is_match(host),
                CallTarget::Files => {
                    let mut paths = card.locations.iter().map(|location| location.path.as_path());
                    !card.locations.is_empty() && paths.all(|path| pattern.covers(path))
                }
                CallTarget::Nothing => false,
            }
    }

    /// Returns whether the rule matches anything that the call touches. That is enough for denying
    /// and asking.
    fn fits_a_part(&self, card: &ToolCard, target: &CallTarget<'_>) -> Match {
        if !self.is_against(&card.tool, card.kind) {
            return match target {
                CallTarget::Input(text) => self.fits_input(text),
                CallTarget::Command(command) if self.is_about_a_file_in(command) => Match::Maybe,
                CallTarget::Command(_) | CallTarget::Host(_) | CallTarget::Files | CallTarget::Nothing => {
                    if self.forbids_moving(card) { Match::Yes } else { Match::No }
                }
            };
        }
        let Some(pattern) = self.pattern.as_ref() else { return Match::Yes };
        let fits = match target {
            CallTarget::Command(command) => return pattern.command.fits_a_part(command),
            CallTarget::Input(text) => return pattern.command.fits_a_part(text).max(Match::Maybe),
            CallTarget::Host(host) => pattern.host.is_match(host),
            CallTarget::Files => card.locations.iter().any(|location| pattern.covers(&location.path)),
            CallTarget::Nothing => false,
        };
        if fits { Match::Yes } else { Match::No }
    }
}

impl Rule {
    /// Returns whether a rule about commands may apply to text that is written to a running
    /// command, which may be a shell.
    fn fits_input(&self, text: &command::ComparedCommand<'_>) -> Match {
        match &self.pattern {
            _ if !self.is_about(BASH, ToolKind::Execute) => Match::No,
            None => Match::Yes,
            Some(pattern) => pattern.command.fits_a_part(text).max(Match::Maybe),
        }
    }

    /// Returns whether the rule is about reading a file that a command plainly names, such as
    /// `cat .env`.
    fn is_about_a_file_in(&self, command: &command::ComparedCommand<'_>) -> bool {
        self.is_about("read_file", ToolKind::Read)
            && self.pattern.as_ref().is_some_and(|pattern| command.names().any(|name| pattern.covers(Path::new(name))))
    }

    /// Returns whether the rule is about reading a file that the call would move, because the file
    /// could be read under its new name. A patch may move several.
    fn forbids_moving(&self, card: &ToolCard) -> bool {
        let moved = match (card.kind, card.tool.as_str()) {
            (ToolKind::Move, APPLY_PATCH) => card.locations.as_slice(),
            (ToolKind::Move, _) => card.locations.get(..1).unwrap_or_default(),
            (_, _) => &[],
        };
        self.is_about("read_file", ToolKind::Read)
            && self.pattern.as_ref().is_some_and(|pattern| moved.iter().any(|source| pattern.covers(&source.path)))
    }
}

impl Tool {
    fn is(&self, tool: &str, kind: ToolKind) -> bool {
        match self {
            Self::Kind(known) => *known == kind,
            Self::Name(glob) => glob.is_match(tool),
        }
    }
}

impl Pattern {
    /// Returns whether the pattern matches the path or a folder above it.
    fn covers(&self, path: &Path) -> bool {
        path.ancestors().any(|part| self.path.is_match(part))
    }
}

/// The part of a call that a pattern is matched against.
enum CallTarget<'a> {
    Command(command::ComparedCommand<'a>),
    /// Text for a running command.
    Input(command::ComparedCommand<'a>),
    Host(String),
    Files,
    Nothing,
}

/// Returns whether a call changes the memory. Viewing it is a call of another kind.
fn changes_memory(tool: &str, kind: ToolKind) -> bool {
    tool == MEMORY && kind == ToolKind::Other
}

fn call_target(card: &ToolCard) -> CallTarget<'_> {
    match (card.tool.as_str(), card.kind) {
        (tool, kind) if changes_memory(tool, kind) => CallTarget::Files,
        (BASH_INPUT, _) => {
            shown(card).map_or(CallTarget::Nothing, |text| CallTarget::Input(command::ComparedCommand::new(text)))
        }
        (BASH, _) => {
            shown(card).map_or(CallTarget::Nothing, |text| CallTarget::Command(command::ComparedCommand::new(text)))
        }
        (_, ToolKind::Fetch) => shown(card).and_then(host).map_or(CallTarget::Nothing, CallTarget::Host),
        (_, ToolKind::Read | ToolKind::Search | ToolKind::Edit | ToolKind::Delete | ToolKind::Move) => {
            CallTarget::Files
        }
        (_, ToolKind::Execute | ToolKind::Think | ToolKind::SwitchMode | ToolKind::Other) => CallTarget::Nothing,
    }
}

/// Returns the whole command or URL as the tool understood it. The input is not used, because it
/// comes from the model and may name the same thing in several ways.
fn shown(card: &ToolCard) -> Option<&str> {
    match card.preview.first()? {
        ToolContent::Text { text } => Some(text),
        ToolContent::Diff { .. }
        | ToolContent::Image { .. }
        | ToolContent::Block { .. }
        | ToolContent::Terminal { .. } => None,
    }
}

fn host(url: &str) -> Option<String> {
    url::Url::parse(url).ok()?.host_str().map(str::to_ascii_lowercase)
}
