//! The session's end of the link to a child. Sending an order never blocks, and no order is lost while the child runs.
//!
//! Nothing bounds the channel, because the number of waiting orders is bounded by what they are: a
//! session sends the next prompt only after the end of the last one, cancels a prompt once, and
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

/// An order of a session to its child.
pub(crate) enum Order {
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
    orders: mpsc::UnboundedSender<Order>,
    changes: Arc<Semaphore>,
}

impl Link {
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<Order>) {
        let (orders, received) = mpsc::unbounded_channel();
        (Self { orders, changes: Arc::new(Semaphore::new(CHANGES)) }, received)
    }

    /// Queues an order. Returns false if the child is gone.
    fn order(&self, order: Order) -> bool {
        self.orders.send(order).is_ok()
    }
}

impl AgentLink for Link {
    fn prompt(&self, content: Vec<Content>, editor: Option<Arc<dyn Editor>>) -> bool {
        self.order(Order::Prompt { content, editor })
    }

    fn cancel(&self) {
        self.order(Order::Cancel);
    }

    fn answer(&self, question: QuestionId, option: Option<String>) {
        self.order(Order::Answer { question, option });
    }

    fn configure(&self, setting: AgentSetting) -> BoxFuture<'static, Result<Option<OfferPart>, AgentFailure>> {
        let Ok(waits) = self.changes.clone().try_acquire_owned() else {
            return Box::pin(std::future::ready(Err(too_many())));
        };
        let (result, answer) = oneshot::channel();
        self.order(Order::Configure { setting, reply: SettingReply { result, _waits: waits } });
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
    async fn every_order_reaches_a_child_that_accepts_none_for_a_while_and_surplus_settings_are_refused() {
        let (link, mut orders) = Link::new();
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
        while let Ok(order) = orders.try_recv() {
            received.push(order);
        }
        assert_eq!(received.len(), CHANGES + 1002);
        assert!(matches!(received[CHANGES + 1000..], [Order::Prompt { .. }, Order::Cancel]));

        // The child has answered or is gone, so there is room again.
        drop((received, waiting));
        drop(orders);
        assert_eq!(change().await.unwrap_err().kind, AgentFailureKind::Broken);
        assert!(!link.prompt(Vec::new(), None), "the child is gone");
    }
}
