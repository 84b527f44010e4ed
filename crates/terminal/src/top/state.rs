//! The state of `ctl top`: a snapshot of the daemon and the selected session. Knows no terminal.

use domain::QuestionId;
use domain::card::{SessionCard, StatusCard};
use serde::Serialize;

use super::question_pager::QuestionPager;

/// The daemon at one moment.
#[derive(Serialize)]
pub struct Snapshot {
    pub status: StatusCard,
    /// The resident memory of the daemon in bytes, if the system reports it.
    pub memory: Option<u64>,
    pub sessions: Vec<SessionCard>,
}

/// What is on the screen.
#[derive(Default)]
pub struct TopState {
    pub snapshot: Option<Snapshot>,
    /// The selected row.
    pub row: usize,
    /// Why the snapshot is out of date.
    pub trouble: Option<String>,
    /// The result of the last key.
    pub said: Option<String>,
    /// The selected session's question, if the screen shows all of it.
    pub whole: Option<QuestionId>,
    /// A question that fills the screen.
    pub pager: Option<QuestionPager>,
}

impl TopState {
    /// Replaces the snapshot. The selection stays on its session.
    pub fn replace(&mut self, snapshot: Snapshot) {
        let selected = self.selected().map(|card| card.id.clone());
        let place = selected.and_then(|id| snapshot.sessions.iter().position(|card| card.id == id));
        self.row = place.unwrap_or(self.row).min(snapshot.sessions.len().saturating_sub(1));
        self.snapshot = Some(snapshot);
        self.trouble = None;
        let open = |pager: &QuestionPager| {
            let card = self.sessions().iter().find(|card| card.id == pager.session);
            card.is_some_and(|card| card.questions.iter().any(|question| question.id == pager.question))
        };
        if self.pager.as_ref().is_some_and(|pager| !open(pager)) {
            self.pager = None;
            self.said = Some("the question was answered elsewhere or withdrawn".to_owned());
        }
    }

    pub fn sessions(&self) -> &[SessionCard] {
        self.snapshot.as_ref().map_or(&[], |snapshot| &snapshot.sessions)
    }

    pub fn selected(&self) -> Option<&SessionCard> {
        self.sessions().get(self.row)
    }

    pub fn move_by(&mut self, rows: isize) {
        self.row = self.row.saturating_add_signed(rows).min(self.sessions().len().saturating_sub(1));
    }
}
