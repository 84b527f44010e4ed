//! Rules of the operator and of a project: which calls run, ask or are denied, by tool and by what they touch.
//!
//! A rule is a text such as `bash(git push)`, `edit(src/**)`, `web_fetch(*.example.com)` or `mcp__github__*`:
//!
//! - The tool is its name, with `*` for any letters, or what it does: `read`, `search`, `edit`, `execute`, `fetch`.
//! - For `bash` the pattern is the first words of the command, or a glob of all of it when it has a `*`, `?` or `[`.
//! - For tools that name files it is a glob of the path. A relative one fits at any depth, and one that fits a folder
//!   covers what is in it. A search counts by the folder that it searches.
//! - For `web_fetch` it is a glob of the host.
//!
//! Pure: knows cards, and neither files nor sessions.

mod command;

use std::path::{Path, PathBuf};

use domain::permission::RuleTexts;
use domain::{ToolCard, ToolContent, ToolKind, Verdict};
use globset::{GlobBuilder, GlobMatcher};
use serde::Deserialize;

/// Denying wins over asking, and asking over allowing.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rules {
    pub allow: Vec<Rule>,
    pub ask: Vec<Rule>,
    pub deny: Vec<Rule>,
}

impl Rules {
    /// None when no rule speaks of the call.
    pub fn verdict(&self, card: &ToolCard) -> Option<Verdict> {
        let fits = |rules: &[Rule], doubt| rules.iter().any(|rule| rule.fits(card, doubt));
        if fits(&self.deny, Doubt::Fits) {
            Some(Verdict::Deny)
        } else if fits(&self.ask, Doubt::Fits) {
            Some(Verdict::Ask)
        } else if fits(&self.allow, Doubt::FitsNot) {
            Some(Verdict::Run)
        } else {
            None
        }
    }

    pub fn texts(&self) -> RuleTexts {
        let texts = |rules: &[Rule]| rules.iter().map(|rule| rule.text.clone()).collect();
        RuleTexts { allow: texts(&self.allow), ask: texts(&self.ask), deny: texts(&self.deny) }
    }

    /// Adds the rules of another place, such as the project's to the operator's.
    pub fn extend(&mut self, more: Rules) {
        self.allow.extend(more.allow);
        self.ask.extend(more.ask);
        self.deny.extend(more.deny);
    }
}

/// The operator's rules: those for everywhere, and those for single projects.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Permissions {
    pub allow: Vec<Rule>,
    pub ask: Vec<Rule>,
    pub deny: Vec<Rule>,
    pub project: Vec<ProjectRules>,
}

/// More rules for sessions that work in a folder or below it. They stand in the operator's configuration and not in the
/// project, which may come from anybody.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProjectRules {
    pub folder: PathBuf,
    #[serde(default)]
    pub allow: Vec<Rule>,
    #[serde(default)]
    pub ask: Vec<Rule>,
    #[serde(default)]
    pub deny: Vec<Rule>,
}

impl Permissions {
    /// The rules that count for a session in this folder.
    pub fn within(&self, cwd: &Path) -> Rules {
        let mut rules = Rules { allow: self.allow.clone(), ask: self.ask.clone(), deny: self.deny.clone() };
        for ProjectRules { folder, allow, ask, deny } in &self.project {
            if cwd.starts_with(folder) {
                rules.extend(Rules { allow: allow.clone(), ask: ask.clone(), deny: deny.clone() });
            }
        }
        rules
    }
}

/// What to make of a command that a rule covers only in part.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Doubt {
    Fits,
    FitsNot,
}

/// One rule, read from its text.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub struct Rule {
    text: String,
    tool: Tool,
    pattern: Option<Pattern>,
}

/// Why a text is no rule.
#[derive(Debug, thiserror::Error)]
pub enum BadRule {
    #[error("the rule `{0}` must look like `tool` or `tool(pattern)`")]
    Shape(String),
    #[error("the rule `{0}` has a pattern that starts with `~`; write the path out")]
    Home(String),
    #[error("the rule `{rule}` has a bad pattern: {reason}")]
    Glob { rule: String, reason: String },
}

#[derive(Clone, Debug)]
enum Tool {
    Kind(ToolKind),
    Name(GlobMatcher),
}

/// The same text in each of its three meanings; the card says which one counts.
#[derive(Clone, Debug)]
struct Pattern {
    command: command::Pattern,
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
        let bad = |error: globset::Error| BadRule::Glob { rule: text.clone(), reason: error.kind().to_string() };
        let tool = match kind(tool) {
            Some(kind) => Tool::Kind(kind),
            None => Tool::Name(glob(tool, false).map_err(bad)?),
        };
        let pattern = match pattern {
            // As good as no pattern.
            None | Some("*" | "**") => None,
            Some(pattern) if pattern.starts_with('~') => return Err(BadRule::Home(text)),
            Some(pattern) => Some(Pattern {
                command: command::Pattern::new(pattern).map_err(bad)?,
                path: glob(&anywhere(pattern), true).map_err(bad)?,
                host: glob(&pattern.to_ascii_lowercase(), false).map_err(bad)?,
            }),
        };
        Ok(Self { text, tool, pattern })
    }
}

fn kind(word: &str) -> Option<ToolKind> {
    match word {
        "read" => Some(ToolKind::Read),
        "search" => Some(ToolKind::Search),
        "edit" => Some(ToolKind::Edit),
        "execute" => Some(ToolKind::Execute),
        "fetch" => Some(ToolKind::Fetch),
        _ => None,
    }
}

fn glob(text: &str, by_parts: bool) -> Result<GlobMatcher, globset::Error> {
    Ok(GlobBuilder::new(text).literal_separator(by_parts).build()?.compile_matcher())
}

fn anywhere(pattern: &str) -> String {
    let pattern = pattern.trim_start_matches("./").trim_end_matches('/');
    if pattern.starts_with('/') { pattern.to_owned() } else { format!("**/{pattern}") }
}

impl Rule {
    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    fn fits(&self, card: &ToolCard, doubt: Doubt) -> bool {
        let tool = match &self.tool {
            Tool::Kind(kind) => *kind == card.kind,
            Tool::Name(glob) => glob.is_match(&card.tool),
        };
        tool && self.pattern.as_ref().is_none_or(|pattern| pattern.fits(card, doubt))
    }
}

impl Pattern {
    fn fits(&self, card: &ToolCard, doubt: Doubt) -> bool {
        match (card.tool.as_str(), card.kind) {
            ("bash", _) => shown(card).is_some_and(|command| match doubt {
                Doubt::Fits => self.command.fits_a_part(command),
                Doubt::FitsNot => self.command.fits_all(command),
            }),
            (_, ToolKind::Fetch) => shown(card).and_then(host).is_some_and(|host| self.host.is_match(host)),
            (_, ToolKind::Read | ToolKind::Search | ToolKind::Edit) => {
                let fits = |path: &Path| path.ancestors().any(|part| self.path.is_match(part));
                let mut paths = card.locations.iter().map(|location| location.path.as_path());
                match doubt {
                    Doubt::Fits => paths.any(fits),
                    Doubt::FitsNot => !card.locations.is_empty() && paths.all(fits),
                }
            }
            (_, ToolKind::Execute | ToolKind::Think | ToolKind::Other) => false,
        }
    }
}

/// The whole command or URL, as the tool understood it. The input is not asked: it is the model's, and may name the
/// same thing in several ways.
fn shown(card: &ToolCard) -> Option<&str> {
    match card.preview.first()? {
        ToolContent::Text { text } => Some(text),
        ToolContent::Diff { .. } | ToolContent::Image { .. } | ToolContent::Terminal { .. } => None,
    }
}

fn host(url: &str) -> Option<String> {
    reqwest::Url::parse(url).ok()?.host_str().map(str::to_ascii_lowercase)
}

#[cfg(test)]
mod tests {
    use domain::Access;
    use domain::tool::Location;
    use serde_json::json;

    use super::*;

    fn rules(allow: &[&str], ask: &[&str], deny: &[&str]) -> Rules {
        serde_json::from_value(json!({"allow": allow, "ask": ask, "deny": deny})).unwrap()
    }

    fn card(tool: &str, kind: ToolKind, path: &str, preview: &str) -> ToolCard {
        ToolCard {
            tool: tool.to_owned(),
            title: String::new(),
            kind,
            locations: vec![Location { path: path.into(), line: None }],
            input: json!({}),
            preview: vec![ToolContent::text(preview)],
            access: Access::Free,
        }
    }

    fn bash(command: &str) -> ToolCard {
        card("bash", ToolKind::Execute, "/", command)
    }

    fn edit(path: &str) -> ToolCard {
        card("edit_file", ToolKind::Edit, path, "")
    }

    fn fetch(url: &str) -> ToolCard {
        card("web_fetch", ToolKind::Fetch, "/", url)
    }

    #[test]
    fn denying_wins_over_asking_and_asking_over_allowing() {
        let rules = rules(&["bash"], &["bash(git)"], &["bash(git push)"]);
        assert_eq!(rules.verdict(&bash("ls")), Some(Verdict::Run));
        assert_eq!(rules.verdict(&bash("git status")), Some(Verdict::Ask));
        assert_eq!(rules.verdict(&bash("git push --force")), Some(Verdict::Deny));
        assert_eq!(rules.verdict(&edit("/project/a")), None);
    }

    #[test]
    fn a_chain_is_allowed_by_nothing_less_than_everything_and_denied_by_any_part() {
        let allow = rules(&["bash(git status)", "bash(cargo *)"], &[], &[]);
        assert_eq!(allow.verdict(&bash("git status --short")), Some(Verdict::Run));
        assert_eq!(allow.verdict(&bash("cargo test")), Some(Verdict::Run));
        for command in ["git status; rm x", "cargo test && rm x", "git status $(rm x)", "cargo test > /etc/x", "git"] {
            assert_eq!(allow.verdict(&bash(command)), None, "{command}");
        }
        assert_eq!(rules(&["bash(*)"], &[], &[]).verdict(&bash("a; b")), Some(Verdict::Run));
        let deny = rules(&[], &[], &["bash(rm -rf)", "bash(*--force*)"]);
        for command in ["ls; rm -rf x", "A=1 /bin/rm -rf x", "sudo rm  -rf x", "echo $(rm -rf x)", "git push --force"] {
            assert_eq!(deny.verdict(&bash(command)), Some(Verdict::Deny), "{command}");
        }
        assert_eq!(deny.verdict(&bash("rm x")), None);
    }

    #[test]
    fn paths_fit_at_any_depth_and_folders_cover_what_is_in_them() {
        let rules = rules(&["edit(src/**)", "edit(/project/docs)"], &[], &["*_file(.env)", "edit(*.lock)"]);
        let cases = [
            ("/project/src/a/b.rs", Some(Verdict::Run)),
            ("/project/docs/x/y.md", Some(Verdict::Run)),
            ("/other/docs/x.md", None),
            ("/project/src/.env", Some(Verdict::Deny)),
            ("/project/Cargo.lock", Some(Verdict::Deny)),
            ("/project/srcs/a", None),
        ];
        for (path, verdict) in cases {
            assert_eq!(rules.verdict(&edit(path)), verdict, "{path}");
        }
        assert_eq!(rules.verdict(&card("read_file", ToolKind::Read, "/project/.env", "")), Some(Verdict::Deny));
    }

    #[test]
    fn hosts_and_names_of_tools_are_globs() {
        let rules = rules(&["web_fetch(docs.rs)", "mcp__github__*"], &[], &["fetch(*.example.com)"]);
        assert_eq!(rules.verdict(&fetch("https://DOCS.rs/serde")), Some(Verdict::Run));
        assert_eq!(rules.verdict(&fetch("https://evil.example/docs.rs")), None);
        assert_eq!(rules.verdict(&fetch("https://a.example.com:8080/x")), Some(Verdict::Deny));
        assert_eq!(rules.verdict(&card("mcp__github__search", ToolKind::Other, "/", "")), Some(Verdict::Run));
        assert_eq!(rules.verdict(&card("mcp__gitlab__search", ToolKind::Other, "/", "")), None);
    }

    #[test]
    fn a_broken_rule_is_an_error_that_names_it() {
        let reason = |rule: &str| Rule::try_from(rule.to_owned()).unwrap_err().to_string();
        assert_eq!(reason("bash(x"), "the rule `bash(x` must look like `tool` or `tool(pattern)`");
        assert_eq!(reason("bash()"), "the rule `bash()` must look like `tool` or `tool(pattern)`");
        assert_eq!(reason("edit(~/x)"), "the rule `edit(~/x)` has a pattern that starts with `~`; write the path out");
        assert!(reason("edit([)").starts_with("the rule `edit([)` has a bad pattern: "));
        assert!(serde_json::from_value::<Rules>(json!({"alow": []})).is_err());
    }
}
