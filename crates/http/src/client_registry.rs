//! The clients that are connected over HTTP, by the key that their requests carry.
//!
//! A client without an open stream is detached after a while: its connection's input ends, as if an
//! editor had disconnected. Its sessions stay.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use acpd_actors::{Peer, Runtime, Transport};

use crate::client::{ClientLimits, HttpClient};
use crate::pipe::{ResponseSink, request_pipe};
use crate::refusal::HttpRefusal;
use crate::router::Router;

/// The maximum number of clients at a time.
const MAX_CLIENTS: usize = 64;

/// How many bytes all clients together keep after they were sent.
const KEPT_OF_ALL: usize = 64 << 20;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ClientKey {
    /// The id that the client chose.
    Sse(String),
    /// The id that we assigned.
    Http(String),
    WebSocket(String),
}

impl ClientKey {
    fn transport(&self) -> Transport {
        match self {
            Self::Sse(_) => Transport::Sse,
            Self::Http(_) => Transport::Http,
            Self::WebSocket(_) => Transport::WebSocket,
        }
    }
}

/// Detaches the client that has been without a stream for the longest time. Fails if every client
/// has a stream.
fn make_room(clients: &mut HashMap<ClientKey, Arc<HttpClient>>) -> Result<(), HttpRefusal> {
    let absent = clients.iter().filter(|(_, client)| *client.streams().borrow() == 0);
    let longest = absent.min_by_key(|(_, client)| client.last_stream()).map(|(key, _)| key.clone());
    let client = longest.and_then(|key| clients.remove(&key)).ok_or(HttpRefusal::TooManyClients)?;
    client.end();
    Ok(())
}

/// Divides evenly what all clients may keep together.
fn divide(clients: &HashMap<ClientKey, Arc<HttpClient>>) {
    clients.values().for_each(|client| client.set_share(KEPT_OF_ALL / clients.len()));
}

pub(crate) struct ClientRegistry {
    runtime: Runtime,
    /// The maximum number of bytes that wait for one client; as many are kept after they were sent.
    outbox: usize,
    detach_after: Duration,
    /// `None` once the daemon shuts down.
    open: Mutex<Option<HashMap<ClientKey, Arc<HttpClient>>>>,
}

impl ClientRegistry {
    pub(crate) fn new(runtime: Runtime, outbox: usize, detach_after: Duration) -> Arc<Self> {
        Arc::new(Self { runtime, outbox, detach_after, open: Mutex::new(Some(HashMap::new())) })
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    pub(crate) fn find(&self, key: &ClientKey) -> Option<Arc<HttpClient>> {
        self.open().as_ref()?.get(key).cloned()
    }

    /// Returns the client with this key, or creates it. Must be called on a thread of the server.
    pub(crate) fn find_or_open(self: &Arc<Self>, key: ClientKey) -> Result<Arc<HttpClient>, HttpRefusal> {
        let mut open = self.open();
        let clients = open.as_mut().ok_or(HttpRefusal::ShuttingDown)?;
        if let Some(client) = clients.get(&key) {
            return Ok(client.clone());
        }
        if clients.len() >= MAX_CLIENTS {
            make_room(clients)?;
        }
        let client = self.connect(&key);
        clients.insert(key.clone(), client.clone());
        divide(clients);
        actix_web::rt::spawn(self.clone().watch_over(key, client.clone()));
        Ok(client)
    }

    fn connect(&self, key: &ClientKey) -> Arc<HttpClient> {
        let (router, kept) = match key {
            ClientKey::Sse(_) => (Router::Single, self.outbox),
            ClientKey::Http(_) => (Router::per_session(), self.outbox),
            // A broken WebSocket cannot be resumed.
            ClientKey::WebSocket(_) => (Router::Single, 0),
        };
        let (requests, source) = request_pipe();
        let limits = ClientLimits { unsent: self.outbox, unsent_of_all: self.runtime.outboxes(), kept };
        let client = HttpClient::new(router, limits, requests);
        let peer = Peer { transport: key.transport(), pid: None };
        self.runtime.connect(source, ResponseSink::new(client.clone()), peer);
        client
    }

    async fn watch_over(self: Arc<Self>, key: ClientKey, client: Arc<HttpClient>) {
        let (mut streams, mut ended) = (client.streams(), client.ended());
        // The client holds the senders, so no wait ends early.
        loop {
            let _ = streams.wait_for(|streams| *streams == 0).await;
            tokio::select! {
                _ = ended.wait_for(|ended| *ended) => break,
                back = tokio::time::timeout(self.detach_after, streams.wait_for(|streams| *streams > 0)) => {
                    if back.is_err() {
                        tracing::info!(transport = key.transport().name(), "detached a client that had no stream for a while");
                        break;
                    }
                }
            }
        }
        self.close(&key, &client);
    }

    /// Detaches a client. A newer client with the same key is not affected.
    pub(crate) fn close(&self, key: &ClientKey, client: &Arc<HttpClient>) {
        // Ending only the input is not enough: with many unread bytes, the connection would never
        // read the end of its input.
        client.end();
        let mut open = self.open();
        if let Some(clients) = open.as_mut()
            && clients.get(key).is_some_and(|found| Arc::ptr_eq(found, client))
        {
            clients.remove(key);
            divide(clients);
        }
    }

    /// The number of bytes that wait, for all clients together.
    pub(crate) fn unread(&self) -> u64 {
        let open = self.open();
        open.iter().flat_map(HashMap::values).map(|client| client.unread() as u64).sum()
    }

    /// Ends each stream once it has sent what waits, and accepts no new clients.
    pub(crate) fn end_all(&self) {
        let clients = self.open().take();
        clients.into_iter().flatten().for_each(|(_, client)| client.end());
    }

    fn open(&self) -> MutexGuard<'_, Option<HashMap<ClientKey, Arc<HttpClient>>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
