//! The session's end of the link to a child. Sending an order never blocks.

use std::sync::Arc;

use domain::editor::Editor;
use domain::hosted::{AgentFailure, AgentLink, AgentSetting, OfferPart};
use domain::{Content, QuestionId};
use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};

/// The most orders that may wait for a child.
const ORDERS: usize = 256;

/// An order of a session to its child.
pub(crate) enum Order {
    Prompt { content: Vec<Content>, editor: Option<Arc<dyn Editor>> },
    Cancel,
    Answer { question: QuestionId, option: Option<String> },
    Configure { setting: AgentSetting, reply: SettingReply },
}

/// Receives the result of a setting.
pub(crate) type SettingReply = oneshot::Sender<Result<Option<OfferPart>, AgentFailure>>;

pub(crate) struct Link(mpsc::Sender<Order>);

impl Link {
    pub(crate) fn new() -> (Self, mpsc::Receiver<Order>) {
        let (sender, orders) = mpsc::channel(ORDERS);
        (Self(sender), orders)
    }

    /// Queues an order. Returns false if the child is gone. An order that finds the queue full is
    /// dropped; a child that accepts no orders is ended by its deadlines.
    fn order(&self, order: Order) -> bool {
        !matches!(self.0.try_send(order), Err(mpsc::error::TrySendError::Closed(_)))
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
        let (reply, answer) = oneshot::channel();
        self.order(Order::Configure { setting, reply });
        Box::pin(async move { answer.await.unwrap_or_else(|_| Err(AgentFailure::broken("the agent is gone"))) })
    }
}
