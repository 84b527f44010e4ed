//! A planned call whose work blocks: it runs on tokio's blocking threads, and is told when nobody waits for it any more.

use std::sync::Arc;

use domain::tool::{Job, ToolHost};
use domain::{Outcome, ToolCard};
use futures_util::future::BoxFuture;
use process::StopFlag;

struct RaiseOnDrop(StopFlag);

impl Drop for RaiseOnDrop {
    fn drop(&mut self) {
        self.0.raise();
    }
}

/// What a cancellation does to work that is under way.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnCancel {
    /// Nobody waits for it: it changes nothing.
    Leave,
    /// It changes files: it stops if it has not had its effect yet, and its true outcome is waited for.
    Finish,
}

pub(crate) struct BlockingJob<F> {
    pub(crate) card: ToolCard,
    pub(crate) on_cancel: OnCancel,
    pub(crate) work: F,
}

impl<F: FnOnce(&StopFlag) -> Outcome + Send + 'static> Job for BlockingJob<F> {
    fn card(&self) -> &ToolCard {
        &self.card
    }

    fn run(self: Box<Self>, host: Arc<dyn ToolHost>) -> BoxFuture<'static, Outcome> {
        let Self { on_cancel, work, .. } = *self;
        Box::pin(async move {
            let stop = StopFlag::default();
            let _raise = RaiseOnDrop(stop.clone());
            let raised = stop.clone();
            let done = tokio::task::spawn_blocking(move || work(&stop));
            let cancelled = async {
                host.cancelled().await;
                if on_cancel == OnCancel::Finish {
                    raised.raise();
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                outcome = done => outcome
                    .unwrap_or_else(|_| Outcome::failed("the call failed inside the tool; this is a defect of acpd")),
                () = cancelled => Outcome::cancelled(),
            }
        })
    }
}
