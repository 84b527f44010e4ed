//! The requests that a running tool may make to its session. The executor of the call implements
//! them.

use futures_util::future::BoxFuture;

use super::{Outcome, SubAgentRequest, ToolContent};
use crate::recall::RecallRequest;
use crate::{CallId, Mode};

/// The services that a session offers to a running tool.
pub trait ToolHost: Send + Sync + 'static {
    /// Runs a sub-agent on a task and returns its report, or what else the request asks for.
    /// Dropping the future ends a sub-agent that does not work in the background.
    fn delegate(&self, _request: SubAgentRequest) -> BoxFuture<'static, Outcome> {
        Box::pin(std::future::ready(Outcome::failed("There are no sub-agents here.")))
    }

    /// Searches the session's log.
    fn recall(&self, _request: RecallRequest) -> BoxFuture<'static, Outcome> {
        Box::pin(std::future::ready(Outcome::failed("There is no log here.")))
    }

    /// Changes the session's mode after the user has agreed. It takes effect with the next step
    /// of the turn.
    fn switch_mode(&self, _mode: Mode) -> BoxFuture<'static, Outcome> {
        Box::pin(std::future::ready(Outcome::failed("The mode cannot be changed here.")))
    }

    /// Returns the id of the call.
    fn call(&self) -> Option<CallId> {
        None
    }

    /// Reports that the call has started (true) or stopped (false) waiting for the user.
    fn wait_for_person(&self, _waits: bool) {}

    /// Shows the call's progress in place of what was shown before. The caller limits how often.
    fn progress(&self, content: Vec<ToolContent>);

    /// Resolves when the call should stop.
    fn cancelled(&self) -> BoxFuture<'static, ()>;
}
