//! A planned call whose work blocks. It runs on tokio's blocking threads, and can check a flag for
//! cancellation.

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

/// How a cancellation treats work that is in progress.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnCancel {
    /// Do not wait for it, because it changes nothing.
    Leave,
    /// Wait for its outcome, because it changes files. It stops if it has had no effect yet.
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
