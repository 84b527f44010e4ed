//! The folders beside the working folder: those that the last request to open the session named.

use std::path::PathBuf;

use actix::{Context, Handler, Message};

use super::Session;

/// Folders beside the working folder that a client named; they have been checked.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Roots(pub(crate) Vec<PathBuf>);

impl Session {
    /// The folders that a client named last count from now on.
    pub(super) fn adopt_roots(&mut self) {
        if let Some(roots) = self.roots_wanted.take() {
            self.state.extra_roots = roots;
        }
    }
}

impl Handler<Roots> for Session {
    type Result = ();

    fn handle(&mut self, Roots(roots): Roots, _: &mut Context<Self>) {
        self.roots_wanted = Some(roots);
        if self.turn.is_none() {
            self.adopt_roots();
        }
    }
}
