//! The session's end of the link to a child: orders go in, and none of them waits.

use std::sync::Arc;

use domain::editor::Editor;
use domain::hosted::{AgentFailure, AgentLink, AgentSetting, OfferPart};
use domain::{Content, QuestionId};
use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};

/// Orders that may wait for a child.
const ORDERS: usize = 256;

/// What a session wants of its child.
pub(crate) enum Order {
    Prompt { content: Vec<Content>, editor: Option<Arc<dyn Editor>> },
    Cancel,
    Answer { question: QuestionId, option: Option<String> },
    Configure { setting: AgentSetting, reply: SettingReply },
}

/// Where the answer to a setting goes.
pub(crate) type SettingReply = oneshot::Sender<Result<Option<OfferPart>, AgentFailure>>;

pub(crate) struct Link(mpsc::Sender<Order>);

impl Link {
    pub(crate) fn new() -> (Self, mpsc::Receiver<Order>) {
        let (sender, orders) = mpsc::channel(ORDERS);
        (Self(sender), orders)
    }

    /// Returns false if the child is gone. A child that takes no orders is ended by its deadlines.
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
