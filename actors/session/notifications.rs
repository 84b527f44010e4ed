//! What a person who is not looking may want to know of a session: that it waits, and that it is done.

use domain::tool::{Notification, NotificationKind};
use domain::{StopReason, TurnId};

use super::Session;

impl Session {
    /// A question is open, and nobody may be there to see it.
    pub(super) fn announce_waiting(&self) {
        let Some(asked) = self.state.questions.last() else { return };
        let about = self.state.calls.get(&asked.question.call).map_or("", |open| open.card.title.as_str());
        self.announce(NotificationKind::Waiting, about);
    }

    pub(super) fn announce_end(&self, reason: &StopReason) {
        // Whoever puts the session away knows.
        if !self.leaving {
            self.announce(NotificationKind::TurnEnded, reason.name());
        }
    }

    fn announce(&self, event: NotificationKind, about: &str) {
        let (title, attended) = (self.state.title.as_deref(), !self.clients.is_empty());
        let turn = self.turn.as_ref().map_or_else(TurnId::new, |running| running.id.clone());
        self.ports.toolbox.notify(Notification { event, about, title, attended }, &self.site(turn));
    }
}
