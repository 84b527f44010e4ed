//! What `ctl top` shows: the daemon at one moment, and which session is selected. Knows no terminal.

use domain::QuestionId;
use domain::card::{SessionCard, StatusCard};
use serde::Serialize;

use super::question_pager::QuestionPager;

/// One look at the daemon.
#[derive(Serialize)]
pub struct Snapshot {
    pub status: StatusCard,
    /// Resident memory of the daemon in bytes, where the system tells.
    pub memory: Option<u64>,
    pub sessions: Vec<SessionCard>,
}

/// What is on the screen.
#[derive(Default)]
pub struct TopState {
    pub snapshot: Option<Snapshot>,
    /// The selected row.
    pub row: usize,
    /// Why the snapshot is not new.
    pub trouble: Option<String>,
    /// What the last key did.
    pub said: Option<String>,
    /// The question of the selected session, if the screen shows all of it.
    pub whole: Option<QuestionId>,
    /// A question that has the whole screen.
    pub pager: Option<QuestionPager>,
}

impl TopState {
    /// The selection stays with its session, wherever that is in the list now.
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
