//! The requests of the editor that wait for an answer, and the link over which it may come.
//!
//! Shared by the two threads of the bridge, and locked only for a moment. Whoever takes an id out owes its answer, so
//! that each request is answered exactly once, also when the daemon goes away. A request is entered and given its link
//! in one step: it can only ever travel over the link under which it is entered.

use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use wire::rpc::{Id, RpcError};

use super::link::Link;

pub(super) struct Table {
    state: Mutex<State>,
    emptied: Condvar,
}

struct State {
    /// The link to the daemon, or why there is none.
    link: Result<Link, RpcError>,
    /// How many requests with this id wait. More than one is the editor's mistake, but each gets its answer.
    open: HashMap<Id, usize>,
}

/// What is to be done with a message of the editor.
pub(super) enum Entered {
    Send(Link),
    Refuse(RpcError),
}

impl Table {
    pub(super) fn new(link: Result<Link, RpcError>) -> Self {
        Self { state: Mutex::new(State { link, open: HashMap::new() }), emptied: Condvar::new() }
    }

    /// Notes a request, unless there is nobody to send it to.
    pub(super) fn enter(&self, request: Option<&Id>) -> Entered {
        let mut state = self.state();
        let link = match &state.link {
            Ok(link) => link.clone(),
            Err(error) => return Entered::Refuse(error.clone()),
        };
        if let Some(id) = request {
            *state.open.entry(id.clone()).or_default() += 1;
        }
        Entered::Send(link)
    }

    /// Notes that the answer has been delivered.
    pub(super) fn answered(&self, id: &Id) {
        let mut state = self.state();
        let Some(count) = state.open.get_mut(id) else { return };
        *count -= 1;
        if *count == 0 {
            state.open.remove(id);
        }
        if state.open.is_empty() {
            self.emptied.notify_all();
        }
    }

    /// The daemon is gone: requests are refused from now on, and the caller answers those that wait.
    pub(super) fn disconnect(&self, error: RpcError) -> Vec<Id> {
        let mut state = self.state();
        state.link = Err(error);
        state.open.iter().flat_map(|(id, count)| std::iter::repeat_n(id.clone(), *count)).collect()
    }

    pub(super) fn wait_until_empty(&self, deadline: Instant) {
        let mut state = self.state();
        while !state.open.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            (state, _) = self.emptied.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The table is whole after every step, so a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    fn id(text: &str) -> Id {
        Id::from_text(text)
    }

    #[test]
    fn what_waits_when_the_daemon_goes_is_handed_over_once() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let table = Table::new(Ok(Link::over(ours)));
        for request in ["a", "b", "b", "c"] {
            assert!(matches!(table.enter(Some(&id(request))), Entered::Send(_)));
        }
        table.answered(&id("a"));
        table.answered(&id("never asked"));
        let mut left = table.disconnect(RpcError::internal("gone"));
        left.sort_by_key(|id| id.raw().to_owned());
        assert_eq!(left, [id("b"), id("b"), id("c")]);
        assert!(matches!(table.enter(Some(&id("d"))), Entered::Refuse(_)));
        left.iter().for_each(|id| table.answered(id));
        table.wait_until_empty(Instant::now());
        assert!(table.disconnect(RpcError::internal("gone")).is_empty());
    }
}
