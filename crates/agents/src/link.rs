//! The session's end of the link to a child. Sending a request never blocks, and no request is lost
//! while the child runs.
//!
//! Nothing bounds the channel, because the number of waiting requests is bounded by what they are:
//! a session sends the next prompt only after the end of the last one, cancels a prompt once, and
//! answers each open question once. Clients can change settings as often as they like, so these
//! have a separate limit.

use std::sync::Arc;

use domain::editor::Editor;
use domain::hosted::{AgentFailure, AgentFailureKind, AgentLink, AgentSetting, OfferPart};
use domain::{Content, QuestionId};
use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

/// The most changes of settings that may wait for a child.
pub(crate) const CHANGES: usize = 64;

/// A request of a session to its child.
pub(crate) enum SessionRequest {
    Prompt { content: Vec<Content>, editor: Option<Arc<dyn Editor>> },
    Cancel,
    Answer { question: QuestionId, option: Option<String> },
    Configure { setting: AgentSetting, reply: SettingReply },
}

/// Receives the result of a setting, which counts as waiting until then.
pub(crate) struct SettingReply {
    result: oneshot::Sender<Result<Option<OfferPart>, AgentFailure>>,
    _waits: OwnedSemaphorePermit,
}

impl SettingReply {
    pub(crate) fn send(self, result: Result<Option<OfferPart>, AgentFailure>) {
        // The client may have dropped its request.
        let _ = self.result.send(result);
    }
}

pub(crate) struct Link {
    requests: mpsc::UnboundedSender<SessionRequest>,
    changes: Arc<Semaphore>,
}

impl Link {
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<SessionRequest>) {
        let (requests, received) = mpsc::unbounded_channel();
        (Self { requests, changes: Arc::new(Semaphore::new(CHANGES)) }, received)
    }

    /// Queues a request. Returns false if the child is gone.
    fn request(&self, request: SessionRequest) -> bool {
        self.requests.send(request).is_ok()
    }
}

impl AgentLink for Link {
    fn prompt(&self, content: Vec<Content>, editor: Option<Arc<dyn Editor>>) -> bool {
        self.request(SessionRequest::Prompt { content, editor })
    }

    fn cancel(&self) {
        self.request(SessionRequest::Cancel);
    }

    fn answer(&self, question: QuestionId, option: Option<String>) {
        self.request(SessionRequest::Answer { question, option });
    }

    fn configure(&self, setting: AgentSetting) -> BoxFuture<'static, Result<Option<OfferPart>, AgentFailure>> {
        let Ok(waits) = self.changes.clone().try_acquire_owned() else {
            return Box::pin(std::future::ready(Err(too_many())));
        };
        let (result, answer) = oneshot::channel();
        self.request(SessionRequest::Configure { setting, reply: SettingReply { result, _waits: waits } });
        Box::pin(async move { answer.await.unwrap_or_else(|_| Err(AgentFailure::broken("the agent is gone"))) })
    }
}

fn too_many() -> AgentFailure {
    AgentFailure {
        kind: AgentFailureKind::Refused,
        message: format!("{CHANGES} changes of settings wait for the agent"),
        data: json!({ "advice": "wait until the agent has accepted them, then try again" }),
        prompt_unseen: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn requests_wait_for_a_busy_child_and_too_many_settings_are_refused() {
        let (link, mut requests) = Link::new();
        let change = || link.configure(AgentSetting::Mode("code".to_owned()));
        let waiting: Vec<_> = (0..CHANGES).map(|_| change()).collect();
        let refused = change().await.unwrap_err();
        assert_eq!(refused.kind, AgentFailureKind::Refused);
        for _ in 0..1000 {
            link.answer(QuestionId::new(), None);
        }
        assert!(link.prompt(vec![Content::text("go")], None));
        link.cancel();
        let mut received = Vec::new();
        while let Ok(request) = requests.try_recv() {
            received.push(request);
        }
        assert_eq!(received.len(), CHANGES + 1002);
        assert!(matches!(received[CHANGES + 1000..], [SessionRequest::Prompt { .. }, SessionRequest::Cancel]));

        // No setting waits any more, so the next one fails only because the child is gone.
        drop((received, waiting));
        drop(requests);
        assert_eq!(change().await.unwrap_err().kind, AgentFailureKind::Broken);
        assert!(!link.prompt(Vec::new(), None), "the child is gone");
    }
}
