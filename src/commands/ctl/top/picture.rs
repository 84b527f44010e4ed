//! What `ctl top` shows: the daemon at one moment, and which session is selected. Knows no terminal.

use std::fs;

use domain::QuestionId;
use domain::card::{SessionCard, StatusCard};
use serde::Serialize;

use super::reading::Reading;

/// One look at the daemon.
#[derive(Serialize)]
pub(super) struct Picture {
    pub(super) status: StatusCard,
    /// Resident memory of the daemon in bytes, where the system tells.
    pub(super) memory: Option<u64>,
    pub(super) sessions: Vec<SessionCard>,
}

impl Picture {
    pub(super) fn of(status: StatusCard, sessions: Vec<SessionCard>) -> Self {
        Self { memory: resident(status.pid), status, sessions }
    }
}

fn resident(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kilobytes * 1024)
}

/// What is on the screen.
#[derive(Default)]
pub(super) struct Shown {
    pub(super) picture: Option<Picture>,
    /// The selected row.
    pub(super) row: usize,
    /// Why the picture is not new.
    pub(super) trouble: Option<String>,
    /// What the last key did.
    pub(super) said: Option<String>,
    /// The question of the selected session, if the screen shows all of it.
    pub(super) whole: Option<QuestionId>,
    /// A question that has the whole screen.
    pub(super) reading: Option<Reading>,
}

impl Shown {
    /// The selection stays with its session, wherever that is in the list now.
    pub(super) fn replace(&mut self, picture: Picture) {
        let selected = self.selected().map(|card| card.id.clone());
        let place = selected.and_then(|id| picture.sessions.iter().position(|card| card.id == id));
        self.row = place.unwrap_or(self.row).min(picture.sessions.len().saturating_sub(1));
        self.picture = Some(picture);
        self.trouble = None;
        let open = |reading: &Reading| {
            let card = self.sessions().iter().find(|card| card.id == reading.session);
            card.is_some_and(|card| card.questions.iter().any(|question| question.id == reading.question))
        };
        if self.reading.as_ref().is_some_and(|reading| !open(reading)) {
            self.reading = None;
            self.said = Some("the question was answered elsewhere or withdrawn".to_owned());
        }
    }

    pub(super) fn sessions(&self) -> &[SessionCard] {
        self.picture.as_ref().map_or(&[], |picture| &picture.sessions)
    }

    pub(super) fn selected(&self) -> Option<&SessionCard> {
        self.sessions().get(self.row)
    }

    pub(super) fn move_by(&mut self, rows: isize) {
        self.row = self.row.saturating_add_signed(rows).min(self.sessions().len().saturating_sub(1));
    }
}
