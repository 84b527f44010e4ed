//! Permission questions, their answers, and the answers that a session remembers.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::inquiry::{Inquiry, LONGEST_WORDS};
use crate::{Approval, CallId, QuestionId, ToolCard, ToolKind, escape, text};

/// Whether a call needs permission before it runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// The call runs without a question.
    Free,
    /// The user is asked first. `always` is what an "always" answer would cover; if it is None,
    /// only "once" is offered.
    Ask { always: Option<Grant> },
    /// The user is asked every time. No grant, rule or approval setting answers for them, and
    /// only "once" is offered.
    AskEveryTime,
    /// The call is a question to the user. Its answer is the outcome, and nothing runs.
    Inquire(Box<Inquiry>),
}

/// What an "always" answer covers, for this session.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grant {
    /// Every call of a tool.
    Tool(String),
    /// Shell commands that begin with these words.
    Command(Vec<String>),
    /// This shell command and no other.
    Exactly(String),
    /// Edits of files below a folder.
    Folder(PathBuf),
    /// The inner grant, as long as the command runs in the sandbox.
    Sandboxed(Box<Grant>),
}

impl Grant {
    pub fn covers(&self, wanted: &Grant) -> bool {
        match (self, wanted) {
            (Grant::Tool(mine), Grant::Tool(theirs)) => mine == theirs,
            (Grant::Command(mine), Grant::Command(theirs)) => theirs.starts_with(mine),
            (Grant::Exactly(mine), Grant::Exactly(theirs)) => mine == theirs,
            (Grant::Folder(mine), Grant::Folder(theirs)) => theirs.starts_with(mine),
            (Grant::Sandboxed(mine), Grant::Sandboxed(theirs)) => mine.covers(theirs),
            (Grant::Sandboxed(_), _) => false,
            // An answer about a command also covers the command in the sandbox, where it can do
            // less.
            (mine, Grant::Sandboxed(theirs)) => mine.covers(theirs),
            (Grant::Tool(_) | Grant::Command(_) | Grant::Exactly(_) | Grant::Folder(_), _) => false,
        }
    }

    /// Returns the end of a sentence that begins with "Always allow".
    pub fn label(&self) -> String {
        let label = match self {
            Grant::Tool(name) => name.clone(),
            Grant::Command(words) => format!("`{}` commands", words.join(" ")),
            Grant::Exactly(command) => format!("exactly `{command}`"),
            Grant::Folder(path) => format!("edits in {}", path.display()),
            Grant::Sandboxed(inner) => format!("{} in the sandbox", inner.label()),
        };
        escape::line(&label).into_owned()
    }
}

/// A question that is open until a client answers it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    pub id: QuestionId,
    pub call: CallId,
    pub always: Option<Grant>,
    /// The answers to an inquiry, or those that the child agent of a hosted session offers; empty
    /// if acpd asks for permission.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<AgentOption>,
    /// The model's question to the user, if this is an inquiry and not a permission question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inquiry: Option<Box<Inquiry>>,
}

/// One answer to an inquiry or to a question of a child agent, in the words of the asker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentOption {
    pub id: String,
    pub name: String,
    pub kind: Choice,
}

impl Question {
    /// Returns the answers to offer, in the order in which they are shown.
    pub fn choices(&self) -> &'static [Choice] {
        match self.always {
            Some(_) => &[Choice::AllowOnce, Choice::AllowAlways, Choice::RejectOnce, Choice::RejectAlways],
            None => &[Choice::AllowOnce, Choice::RejectOnce],
        }
    }

    /// Returns the decision, or a rejection in place of an answer that was not offered.
    pub fn admit(&self, decision: Decision) -> Decision {
        match decision {
            Decision::Chose(choice) if !self.choices().contains(&choice) => Decision::Chose(Choice::RejectOnce),
            Decision::Chose(_) | Decision::Cancelled | Decision::Unanswered | Decision::Dismissed => decision,
        }
    }

    /// Returns the option of the child that matches an answer: the one with this id; without an id,
    /// the first of the chosen kind, or else one of the other kind that also allows or rejects.
    pub(crate) fn option_for(&self, id: Option<&str>, choice: Choice) -> Option<&AgentOption> {
        if let Some(id) = id {
            return self.options.iter().find(|option| option.id == id);
        }
        let alike = self.options.iter().filter(|option| option.kind.allows() == choice.allows());
        alike.clone().find(|option| option.kind == choice).or_else(|| {
            // A one-time permission must not become a permanent one.
            alike.clone().find(|option| !option.kind.is_permanent() || !choice.allows())
        })
    }

    /// Whether the question offers an answer.
    pub fn accepts(&self, answer: &Answer) -> bool {
        match (&self.inquiry, &answer.selection) {
            (Some(inquiry), _) => inquiry.accepts(answer),
            (None, Selection::Option(id)) => self.options.iter().any(|option| option.id == *id),
            (None, Selection::Decided(_)) => true,
        }
    }

    pub fn choice_name(&self, choice: Choice) -> String {
        let scope = self.always.as_ref().map(Grant::label).unwrap_or_default();
        match choice {
            Choice::AllowOnce => "Allow".to_owned(),
            Choice::AllowAlways => format!("Always allow {scope}"),
            Choice::RejectOnce => "Reject".to_owned(),
            Choice::RejectAlways => format!("Always reject {scope}"),
        }
    }
}

/// One of the answers to a permission question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    AllowOnce,
    AllowAlways,
    RejectOnce,
    RejectAlways,
}

impl Choice {
    pub const ALL: [Choice; 4] = [Choice::AllowOnce, Choice::AllowAlways, Choice::RejectOnce, Choice::RejectAlways];

    pub fn id(self) -> &'static str {
        match self {
            Choice::AllowOnce => "allow_once",
            Choice::AllowAlways => "allow_always",
            Choice::RejectOnce => "reject_once",
            Choice::RejectAlways => "reject_always",
        }
    }

    pub fn from_id(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|choice| choice.id() == id)
    }

    pub(crate) fn is_permanent(self) -> bool {
        matches!(self, Choice::AllowAlways | Choice::RejectAlways)
    }

    pub fn allows(self) -> bool {
        matches!(self, Choice::AllowOnce | Choice::AllowAlways)
    }
}

/// A client's answer to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub selection: Selection,
    /// What the user wrote with it: why they decline, or the answer itself.
    pub words: Option<String>,
    /// The name of the client.
    pub by: String,
}

/// How a client expresses an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    Decided(Decision),
    /// One of the options that the client was shown, by its id.
    Option(String),
}

impl Answer {
    pub fn decided(decision: Decision, by: impl Into<String>) -> Self {
        Self { selection: Selection::Decided(decision), words: None, by: by.into() }
    }

    /// Returns the words without white space around them and within their limit; None if there are
    /// none.
    pub(crate) fn bounded_words(&self) -> Option<String> {
        let words = self.words.as_deref()?.trim();
        (!words.is_empty()).then(|| text::cut(words, LONGEST_WORDS))
    }
}

/// How a question was settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    Chose(Choice),
    /// The client cancelled the question, which ends the turn.
    Cancelled,
    /// The daemon stopped before the question was answered. Nothing was run.
    Unanswered,
    /// The user closed the form of an inquiry without an answer. The turn continues.
    Dismissed,
}

/// The "always" answers of one session, newest last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionMemory {
    rules: Vec<(Grant, bool)>,
}

impl PermissionMemory {
    pub fn remember(&mut self, grant: Grant, allow: bool) {
        self.rules.retain(|(known, _)| *known != grant);
        self.rules.push((grant, allow));
    }

    /// Looks up a remembered answer. A rejection wins over a permission.
    pub fn lookup(&self, wanted: &Grant) -> Option<bool> {
        let mut found = None;
        for (grant, allow) in &self.rules {
            if grant.covers(wanted) {
                found = Some(found.unwrap_or(true) && *allow);
            }
        }
        found
    }

    pub fn rules(&self) -> &[(Grant, bool)] {
        &self.rules
    }
}

/// The decision about a planned call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Run,
    Ask,
    Deny,
}

/// Decides from the card, the operator's rule about it, the session's approval setting and its
/// remembered answers. The strictest wins, in this order: a rule that denies, a remembered
/// rejection, a rule that asks, a remembered permission, a rule that allows, and finally the
/// approval setting.
pub fn decide(card: &ToolCard, rule: Option<Verdict>, approval: Approval, memory: &PermissionMemory) -> Verdict {
    if rule == Some(Verdict::Deny) {
        return Verdict::Deny;
    }
    if matches!(card.access, Access::AskEveryTime | Access::Inquire(_)) {
        return Verdict::Ask;
    }
    let remembered = match &card.access {
        Access::Ask { always: Some(grant) } => memory.lookup(grant),
        Access::Ask { always: None } | Access::AskEveryTime | Access::Inquire(_) | Access::Free => None,
    };
    match (remembered, rule, approval) {
        (Some(false), ..) => Verdict::Deny,
        (_, Some(Verdict::Ask), _) => Verdict::Ask,
        (Some(true), ..) => Verdict::Run,
        (None, Some(verdict), _) => verdict,
        (None, None, _) if card.access == Access::Free => Verdict::Run,
        (None, None, Approval::Never) => Verdict::Run,
        // An edit that no "always" answer may cover is more than an edit: the file is executed
        // later.
        (None, None, Approval::AcceptEdits) if card.kind == ToolKind::Edit && offers_always(card) => Verdict::Run,
        (None, None, Approval::AcceptEdits | Approval::Ask) => Verdict::Ask,
    }
}

fn offers_always(card: &ToolCard) -> bool {
    matches!(card.access, Access::Ask { always: Some(_) })
}

/// The operator's rules as they are written in the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleTexts {
    pub allow: Vec<String>,
    pub ask: Vec<String>,
    pub deny: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(text: &str) -> Grant {
        Grant::Command(text.split(' ').map(str::to_owned).collect())
    }

    #[test]
    fn a_rejection_wins_over_a_wider_permission() {
        let mut memory = PermissionMemory::default();
        memory.remember(command("git"), true);
        memory.remember(command("git push"), false);
        assert_eq!(memory.lookup(&command("git status")), Some(true));
        assert_eq!(memory.lookup(&command("git push --force")), Some(false));
        assert_eq!(memory.lookup(&command("cargo test")), None);
    }

    #[test]
    fn deny_precedes_ask_then_grants_then_allow_then_the_approval_setting() {
        let folder = Grant::Folder("/work".into());
        let free = ToolCard {
            tool: "t".to_owned(),
            title: String::new(),
            kind: ToolKind::Edit,
            locations: Vec::new(),
            input: serde_json::Value::Null,
            preview: Vec::new(),
            access: Access::Free,
        };
        let asks = ToolCard { access: Access::Ask { always: Some(folder.clone()) }, ..free.clone() };
        let every_time = ToolCard { access: Access::AskEveryTime, ..free.clone() };
        let (nothing, mut allowed, mut rejected) =
            (PermissionMemory::default(), PermissionMemory::default(), PermissionMemory::default());
        allowed.remember(folder.clone(), true);
        rejected.remember(folder, false);
        let cases = [
            (&asks, Some(Verdict::Deny), Approval::Never, &allowed, Verdict::Deny),
            (&asks, Some(Verdict::Ask), Approval::Never, &allowed, Verdict::Ask),
            (&asks, Some(Verdict::Ask), Approval::Never, &rejected, Verdict::Deny),
            (&asks, Some(Verdict::Run), Approval::Ask, &allowed, Verdict::Run),
            (&asks, None, Approval::Ask, &allowed, Verdict::Run),
            (&asks, Some(Verdict::Run), Approval::Never, &rejected, Verdict::Deny),
            (&asks, Some(Verdict::Ask), Approval::Never, &nothing, Verdict::Ask),
            (&asks, Some(Verdict::Run), Approval::Ask, &nothing, Verdict::Run),
            (&asks, None, Approval::Ask, &nothing, Verdict::Ask),
            (&asks, None, Approval::AcceptEdits, &nothing, Verdict::Run),
            (&free, None, Approval::Ask, &nothing, Verdict::Run),
            (&free, Some(Verdict::Ask), Approval::Never, &nothing, Verdict::Ask),
            (&free, Some(Verdict::Deny), Approval::Never, &nothing, Verdict::Deny),
            (&every_time, None, Approval::Never, &allowed, Verdict::Ask),
            (&every_time, Some(Verdict::Run), Approval::Never, &allowed, Verdict::Ask),
            (&every_time, Some(Verdict::Deny), Approval::Never, &allowed, Verdict::Deny),
        ];
        for (number, (card, rule, approval, memory, expected)) in cases.into_iter().enumerate() {
            assert_eq!(decide(card, rule, approval, memory), expected, "case {number}");
        }
    }

    #[test]
    fn a_grant_for_the_sandbox_does_not_apply_outside_it() {
        let inside = |text: &str| Grant::Sandboxed(Box::new(command(text)));
        assert!(inside("make").covers(&inside("make all")));
        assert!(!inside("make").covers(&command("make all")));
        assert!(command("make").covers(&inside("make all")));
        assert_eq!(inside("git log").label(), "`git log` commands in the sandbox");
    }

    #[test]
    fn a_folder_grant_covers_files_below_it_and_not_its_namesake() {
        let folder = Grant::Folder("/work/src".into());
        assert!(folder.covers(&Grant::Folder("/work/src/deep".into())));
        assert!(!folder.covers(&Grant::Folder("/work/src2".into())));
    }
}
