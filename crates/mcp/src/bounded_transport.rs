//! Limits the traffic with one server, over any transport: how many of its requests may be open,
//! and how much may wait to be sent to it. A server that exceeds a limit either floods us or does
//! not read, and is disconnected.
//!
//! The MCP library has no such limits: it starts a task for each request and another for each
//! waiting message.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, RequestId, ServerJsonRpcMessage, ServerNotification};
use rmcp::service::RoleClient;
use rmcp::transport::Transport;
use serde::Serialize;
use tokio::sync::watch;

/// The most requests of a server that may be unanswered, or whose response is not sent yet.
const MAX_OPEN: usize = 1000;

/// The most messages that may wait to be sent to a server.
const MAX_WAITING: usize = 1000;

/// The most bytes of open requests, and of waiting messages. A single message may be larger.
const MAX_BYTES: usize = 16 << 20;

/// The reason why we disconnect a server, if there is one. Clones share it; only the first reason
/// is kept.
#[derive(Clone)]
pub(crate) struct DisconnectReason(Arc<watch::Sender<Option<String>>>);

impl Default for DisconnectReason {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }
}

impl DisconnectReason {
    pub(crate) fn because(&self, reason: impl Into<String>) {
        self.0.send_if_modified(|known| {
            let first = known.is_none();
            known.get_or_insert_with(|| reason.into());
            first
        });
    }

    pub(crate) fn reason(&self) -> Option<String> {
        self.0.borrow().clone()
    }

    /// Resolves with the reason once there is one.
    pub(crate) async fn failure(&self) -> String {
        let mut reason = self.0.subscribe();
        // The sender is held here, so the wait can only end with a value.
        let _ = reason.wait_for(Option::is_some).await;
        self.reason().unwrap_or_default()
    }
}

/// The reason why a message could not be sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError<E: std::error::Error + 'static> {
    #[error("too many messages are waiting to be sent to the server")]
    Full,
    #[error("{0}")]
    Transport(#[source] E),
}

/// A transport whose traffic is limited.
pub(crate) struct BoundedTransport<T> {
    transport: T,
    limiter: Arc<TrafficLimiter>,
}

impl<T> BoundedTransport<T> {
    pub(crate) fn new(transport: T, disconnect: DisconnectReason) -> Self {
        Self { transport, limiter: Arc::new(TrafficLimiter { load: Mutex::default(), disconnect }) }
    }
}

struct TrafficLimiter {
    load: Mutex<PendingTraffic>,
    disconnect: DisconnectReason,
}

#[derive(Default)]
struct PendingTraffic {
    /// Unanswered requests of the server, with their sizes.
    open: HashMap<RequestId, usize>,
    open_bytes: usize,
    waiting: usize,
    waiting_bytes: usize,
}

impl TrafficLimiter {
    /// Returns whether a request of the server is within the limits.
    fn opens(&self, id: &RequestId, size: usize) -> bool {
        let mut load = self.lock();
        if load.open.contains_key(id) {
            self.disconnect.because("it sent two requests under one id");
            return false;
        }
        if load.open.len() >= MAX_OPEN || (load.open_bytes > 0 && load.open_bytes + size > MAX_BYTES) {
            self.disconnect.because("it floods acpd with requests, and too many of them are open");
            return false;
        }
        load.open.insert(id.clone(), size);
        load.open_bytes += size;
        true
    }

    fn closes(&self, id: &RequestId) {
        let mut load = self.lock();
        let size = load.open.remove(id).unwrap_or_default();
        load.open_bytes -= size;
    }

    /// Counts a message until the returned value is dropped. Returns None if too much is waiting
    /// already.
    fn admit(self: &Arc<Self>, size: usize, answers: Option<RequestId>) -> Option<Waiting> {
        let mut load = self.lock();
        if load.waiting >= MAX_WAITING || (load.waiting_bytes > 0 && load.waiting_bytes + size > MAX_BYTES) {
            self.disconnect.because("it does not read what it is sent");
            return None;
        }
        load.waiting += 1;
        load.waiting_bytes += size;
        drop(load);
        Some(Waiting { limiter: self.clone(), size, answers })
    }

    fn lock(&self) -> MutexGuard<'_, PendingTraffic> {
        // Every operation leaves the load consistent, so a poisoned lock is harmless.
        self.load.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A message that waits to be sent.
struct Waiting {
    limiter: Arc<TrafficLimiter>,
    size: usize,
    /// The request to which it responds.
    answers: Option<RequestId>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(id) = &self.answers {
            self.limiter.closes(id);
        }
        let mut load = self.limiter.lock();
        load.waiting -= 1;
        load.waiting_bytes -= self.size;
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for BoundedTransport<T> {
    type Error = SendError<T::Error>;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let answers = match &message {
            JsonRpcMessage::Response(response) => Some(response.id.clone()),
            JsonRpcMessage::Error(error) => error.id.clone(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        let waiting = self.limiter.admit(json_size(&message), answers);
        let sent = waiting.map(|waiting| (waiting, self.transport.send(message)));
        async move {
            let Some((_waiting, sent)) = sent else { return Err(SendError::Full) };
            sent.await.map_err(SendError::Transport)
        }
    }

    /// Cancel safe if the inner transport is.
    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        // Without this, all messages that have arrived would be read at once, and none answered in
        // between.
        tokio::task::coop::consume_budget().await;
        let message = tokio::select! {
            biased;
            _ = self.limiter.disconnect.failure() => return None,
            message = self.transport.receive() => message?,
        };
        match &message {
            JsonRpcMessage::Request(request) => {
                if !self.limiter.opens(&request.id, json_size(&message)) {
                    return None;
                }
            }
            // The library drops the response to a cancelled request.
            JsonRpcMessage::Notification(notification) => {
                if let ServerNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.limiter.closes(id);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
        Some(message)
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.transport.close().await.map_err(SendError::Transport)
    }
}

/// Returns the size of a message as JSON, in bytes.
pub(crate) fn json_size(message: &impl Serialize) -> usize {
    struct ByteCounter(usize);
    impl io::Write for ByteCounter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counter = ByteCounter(0);
    match serde_json::to_writer(&mut counter, message) {
        Ok(()) => counter.0,
        Err(_) => usize::MAX / 4,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use serde_json::json;
    use tokio::sync::Semaphore;

    use super::*;

    /// Delivers the messages that the test provides, and sends as many as the test permits.
    struct Scripted {
        coming: VecDeque<ServerJsonRpcMessage>,
        permits: Arc<Semaphore>,
    }

    impl Transport<RoleClient> for Scripted {
        type Error = io::Error;

        fn send(&mut self, _: ClientJsonRpcMessage) -> impl Future<Output = io::Result<()>> + Send + 'static {
            let permits = self.permits.clone();
            async move {
                permits.acquire().await.unwrap().forget();
                Ok(())
            }
        }

        async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
            match self.coming.pop_front() {
                Some(message) => Some(message),
                None => std::future::pending().await,
            }
        }

        async fn close(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn bounded(coming: Vec<serde_json::Value>, permits: usize) -> (BoundedTransport<Scripted>, DisconnectReason) {
        let coming = coming.into_iter().map(|message| serde_json::from_value(message).unwrap()).collect();
        let disconnect = DisconnectReason::default();
        let scripted = Scripted { coming, permits: Arc::new(Semaphore::new(permits)) };
        (BoundedTransport::new(scripted, disconnect.clone()), disconnect)
    }

    fn ping(id: usize) -> serde_json::Value {
        json!({ "jsonrpc": "2.0", "id": id, "method": "ping" })
    }

    fn pong(id: usize) -> ClientJsonRpcMessage {
        serde_json::from_value(json!({ "jsonrpc": "2.0", "id": id, "result": {} })).unwrap()
    }

    #[tokio::test]
    async fn a_server_may_send_any_number_of_requests_if_it_reads_the_answers() {
        let (mut transport, disconnect) = bounded((0..3 * MAX_OPEN).map(ping).collect(), usize::MAX >> 4);
        for id in 0..3 * MAX_OPEN {
            assert!(transport.receive().await.is_some(), "{id}");
            transport.send(pong(id)).await.unwrap();
        }
        assert_eq!(disconnect.reason(), None);
    }

    #[tokio::test]
    async fn a_server_whose_requests_pile_up_is_disconnected() {
        let (mut transport, disconnect) = bounded((0..=MAX_OPEN).map(ping).collect(), 0);
        for id in 0..MAX_OPEN {
            assert!(transport.receive().await.is_some(), "{id}");
        }
        assert!(transport.receive().await.is_none());
        assert_eq!(disconnect.reason().unwrap(), "it floods acpd with requests, and too many of them are open");
        assert!(transport.receive().await.is_none(), "it stays so");
    }

    #[tokio::test]
    async fn requests_count_by_their_size_and_until_they_are_withdrawn() {
        let large = |id: usize| {
            let params = json!({ "_meta": { "x": "x".repeat(MAX_BYTES / 2 + 1) } });
            json!({ "jsonrpc": "2.0", "id": id, "method": "ping", "params": params })
        };
        let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 0 } });
        let (mut transport, disconnect) = bounded(vec![large(0), cancel, large(1), large(2)], 0);
        for _ in 0..3 {
            assert!(transport.receive().await.is_some());
        }
        assert!(transport.receive().await.is_none());
        assert!(disconnect.reason().unwrap().starts_with("it floods acpd with requests"));
    }

    #[tokio::test]
    async fn one_id_for_two_open_requests_is_too_much() {
        let (mut transport, disconnect) = bounded(vec![ping(1), ping(1)], 0);
        assert!(transport.receive().await.is_some());
        assert!(transport.receive().await.is_none());
        assert_eq!(disconnect.reason().unwrap(), "it sent two requests under one id");
    }

    #[tokio::test]
    async fn an_mcp_server_that_does_not_read_is_disconnected_early() {
        let call = |size: usize| {
            let arguments = json!({ "text": "x".repeat(size) });
            let params = json!({ "name": "write", "arguments": arguments });
            let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
            serde_json::from_value::<ClientJsonRpcMessage>(call).unwrap()
        };
        let (mut transport, disconnect) = bounded(vec![], 1);
        // A single message may have any size if nothing else waits.
        transport.send(call(2 * MAX_BYTES)).await.unwrap();
        let _waits = transport.send(call(MAX_BYTES - 1000));
        assert_eq!(disconnect.reason(), None);
        assert!(matches!(transport.send(call(1000)).await, Err(SendError::Full)));
        assert_eq!(disconnect.reason().unwrap(), "it does not read what it is sent");
    }
}
