//! Limits what MCP servers ask the user at one client. The limit applies where questions enter the
//! connection, because a server may write at any speed and each question is a message to an actor
//! and a line in the client's outbox.
//!
//! A Connection shares this with the `ClientEditor` of each of its prompts. The lock is only held
//! briefly.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// How many questions may be open at one client.
const OPEN: usize = 16;

/// How many open pages per client are remembered until their end is reported. Beyond that the
/// oldest are forgotten.
const PAGES: usize = 64;

#[derive(Default)]
pub(super) struct Elicitations {
    open: AtomicUsize,
    pages: Mutex<VecDeque<String>>,
}

/// A question that is open at the client until this is dropped.
pub(super) struct OpenForm(Arc<Elicitations>);

impl Drop for OpenForm {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Elicitations {
    /// Opens another question. None if too many are open.
    pub(super) fn open(self: &Arc<Self>) -> Option<OpenForm> {
        let more = |open| (open < OPEN).then_some(open + 1);
        self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|_| OpenForm(self.clone()))
    }

    /// Records that the client is asked to open a page.
    pub(super) fn opens_page(&self, id: &str) {
        let mut pages = self.pages();
        pages.retain(|known| known != id);
        if pages.len() == PAGES {
            pages.pop_front();
        }
        pages.push_back(id.to_owned());
    }

    /// Whether to notify the client that a page is finished: once for each page that it was asked
    /// to open, and never for others.
    pub(super) fn closes_page(&self, id: &str) -> bool {
        let mut pages = self.pages();
        let found = pages.iter().position(|known| known == id);
        found.and_then(|at| pages.remove(at)).is_some()
    }

    fn pages(&self) -> std::sync::MutexGuard<'_, VecDeque<String>> {
        // The list is consistent after every step, so a panic elsewhere does not corrupt it.
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completion_of_a_page_is_forwarded_once_and_only_if_it_was_opened() {
        let asked = Elicitations::default();
        assert!(!asked.closes_page("a"));
        asked.opens_page("a");
        asked.opens_page("a");
        assert!(asked.closes_page("a"));
        assert!(!(0..1_000_000).any(|_| asked.closes_page("a")));
        (0..1000).for_each(|page| asked.opens_page(&page.to_string()));
        assert_eq!((0..1000).filter(|page| asked.closes_page(&page.to_string())).count(), PAGES);
    }

    #[test]
    fn the_number_of_open_questions_is_limited() {
        let asked = Arc::new(Elicitations::default());
        let mut open: Vec<OpenForm> = (0..100).filter_map(|_| asked.open()).collect();
        assert_eq!(open.len(), OPEN);
        open.pop();
        assert!(asked.open().is_some());
    }
}
