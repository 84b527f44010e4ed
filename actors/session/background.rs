//! Work outside the conversation: reports of background commands, and requests of clients to end a
//! single call or terminal.

use actix::{Context, Handler, Message, StreamHandler};
use domain::CallId;
use domain::session::{Input, InputReply};
use domain::tool::BackgroundReport;

use super::Session;

/// Ends one call, or the command of one terminal, which may run in the background. Replies whether
/// it was running.
#[derive(Message)]
#[rtype(result = "bool")]
pub(crate) struct CancelWork {
    pub(crate) call: CallId,
    /// Whether to end a command that the call started in the background as well.
    pub(crate) in_background: bool,
}

impl StreamHandler<BackgroundReport> for Session {
    fn handle(&mut self, report: BackgroundReport, ctx: &mut Context<Self>) {
        self.deliver(Input::Background(report), ctx);
    }

    fn finished(&mut self, _: &mut Context<Self>) {
        // The toolbox ended the stream when it closed the session. The actor stops separately.
    }
}

impl Handler<CancelWork> for Session {
    type Result = bool;

    fn handle(&mut self, CancelWork { call, in_background }: CancelWork, ctx: &mut Context<Self>) -> bool {
        let state = self.state();
        let left = state.open.background.iter().find(|(_, work)| work.call == call);
        if let Some((handle, _)) = left.filter(|_| in_background) {
            return self.ports.toolbox.stop_background(&state.id, handle);
        }
        // Only a shell command has a terminal.
        let has_terminal = state.open.calls.get(&call).is_some_and(|open| !open.card.command().is_empty());
        if in_background && !has_terminal {
            return false;
        }
        matches!(self.deliver(Input::CancelCall(call), ctx), Some(InputReply::CancelCall(true)))
    }
}
