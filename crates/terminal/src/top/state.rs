//! The state of `ctl top`: a snapshot of the daemon and the selected session. Knows no terminal.

use std::cmp::Reverse;

use domain::card::{ActivityCard, SessionCard, StatusCard};
use domain::{QuestionId, SessionId};
use serde::Serialize;

use super::question_pager::QuestionPager;

/// The state of the daemon at one moment.
#[derive(Serialize)]
pub struct Snapshot {
    pub status: StatusCard,
    /// The resident memory of the daemon in bytes, if the system reports it.
    pub memory: Option<u64>,
    pub sessions: Vec<SessionCard>,
}

/// The state of the screen.
#[derive(Default)]
pub struct TopState {
    pub snapshot: Option<Snapshot>,
    /// The selected row.
    pub row: usize,
    /// Why the snapshot is out of date.
    pub trouble: Option<String>,
    /// The message about the result of the last key.
    pub message: Option<String>,
    /// The selected session's question, if all of it is on the screen.
    pub whole: Option<QuestionId>,
    /// A question that fills the screen.
    pub pager: Option<QuestionPager>,
    /// The sessions of the snapshot that match the filter, in the chosen order.
    shown: Vec<SessionCard>,
    /// Only sessions with this text in their title, folder, model or id are shown.
    pub filter: String,
    /// Whether the user is editing the filter.
    pub filtering: bool,
    pub order: Order,
    /// Whether the help page is shown.
    pub help: bool,
    /// The session whose turn is cancelled if the same key is pressed again.
    pub confirming: Option<SessionId>,
}

/// The order of the sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Waiting, running, idle; within each state the most recently changed first.
    #[default]
    State,
    Updated,
    Cost,
    Folder,
}

impl Order {
    pub fn next(self) -> Self {
        match self {
            Order::State => Order::Updated,
            Order::Updated => Order::Cost,
            Order::Cost => Order::Folder,
            Order::Folder => Order::State,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Order::State => "state",
            Order::Updated => "last change",
            Order::Cost => "cost",
            Order::Folder => "folder",
        }
    }

    fn sort(self, sessions: &mut [SessionCard]) {
        let urgency = |card: &SessionCard| match card.state {
            ActivityCard::Waiting => 0,
            ActivityCard::Running => 1,
            ActivityCard::Idle => 2,
        };
        let cost = |card: &SessionCard| card.cost.as_ref().map_or(0.0, |cost| cost.amount);
        match self {
            Order::State => sessions.sort_by_key(|card| (urgency(card), Reverse(card.updated.0))),
            Order::Updated => sessions.sort_by_key(|card| Reverse(card.updated.0)),
            Order::Cost => sessions.sort_by(|one, other| cost(other).total_cmp(&cost(one))),
            Order::Folder => sessions.sort_by(|one, other| one.cwd.cmp(&other.cwd)),
        }
    }
}

impl TopState {
    /// Replaces the snapshot. The selection stays on its session.
    pub fn replace(&mut self, snapshot: Snapshot) {
        self.snapshot = Some(snapshot);
        self.trouble = None;
        self.choose();
        let open = |pager: &QuestionPager| {
            let all = self.snapshot.iter().flat_map(|snapshot| &snapshot.sessions);
            let card = all.into_iter().find(|card| card.id == pager.session);
            card.is_some_and(|card| card.questions.iter().any(|question| question.id == pager.question))
        };
        if self.pager.as_ref().is_some_and(|pager| !open(pager)) {
            self.pager = None;
            self.message = Some("the question was answered elsewhere or withdrawn".to_owned());
        }
    }

    /// Filters and sorts the sessions. The selection stays on its session.
    pub fn choose(&mut self) {
        let selected = self.selected().map(|card| card.id.clone());
        let wanted = self.filter.to_lowercase();
        let fits = |card: &&SessionCard| {
            let texts = [
                card.id.to_string(),
                card.title.clone().unwrap_or_default(),
                card.cwd.display().to_string(),
                card.model.to_string(),
            ];
            texts.iter().any(|text| text.to_lowercase().contains(&wanted))
        };
        self.shown = self.snapshot.iter().flat_map(|snapshot| &snapshot.sessions).filter(fits).cloned().collect();
        self.order.sort(&mut self.shown);
        let place = selected.and_then(|id| self.shown.iter().position(|card| card.id == id));
        self.row = place.unwrap_or(self.row).min(self.shown.len().saturating_sub(1));
    }

    pub fn sessions(&self) -> &[SessionCard] {
        &self.shown
    }

    pub fn selected(&self) -> Option<&SessionCard> {
        self.sessions().get(self.row)
    }

    pub fn move_by(&mut self, rows: isize) {
        self.row = self.row.saturating_add_signed(rows).min(self.sessions().len().saturating_sub(1));
    }
}
