//! Who is connected over HTTP, by the name under which its requests come, and until when.
//!
//! A client that has had no stream for a while is detached: its connection's input ends, as if an editor had gone. Its
//! sessions live on.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use acpd_actors::{Peer, Runtime, Transport};

use crate::client::Client;
use crate::pipe::{ResponseSink, request_pipe};
use crate::refusal::Refusal;
use crate::router::Router;

/// ClientRegistry at a time.
const MOST: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ClientKey {
    /// By the id that the client has chosen.
    Sse(String),
    /// By the id that we have given it.
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

/// Detaches one that has no stream, if there is one.
fn make_room(clients: &mut HashMap<ClientKey, Arc<Client>>) -> Result<(), Refusal> {
    let absent = clients.iter().filter(|(_, client)| *client.streams().borrow() == 0);
    let longest = absent.min_by_key(|(_, client)| client.last_stream()).map(|(key, _)| key.clone());
    let client = longest.and_then(|key| clients.remove(&key)).ok_or(Refusal::TooManyClients)?;
    client.end();
    Ok(())
}

pub(crate) struct ClientRegistry {
    runtime: Runtime,
    /// Bytes that may wait for one client, and bytes that are kept for it beyond that.
    outbox: usize,
    detach_after: Duration,
    /// None once the daemon leaves.
    open: Mutex<Option<HashMap<ClientKey, Arc<Client>>>>,
}

impl ClientRegistry {
    pub(crate) fn new(runtime: Runtime, outbox: usize, detach_after: Duration) -> Arc<Self> {
        Arc::new(Self { runtime, outbox, detach_after, open: Mutex::new(Some(HashMap::new())) })
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    pub(crate) fn find(&self, key: &ClientKey) -> Option<Arc<Client>> {
        self.open().as_ref()?.get(key).cloned()
    }

    /// The client of that name, which is new if there was none. Must be called on a thread of the server's.
    pub(crate) fn find_or_open(self: &Arc<Self>, key: ClientKey) -> Result<Arc<Client>, Refusal> {
        let mut open = self.open();
        let clients = open.as_mut().ok_or(Refusal::ShuttingDown)?;
        if let Some(client) = clients.get(&key) {
            return Ok(client.clone());
        }
        if clients.len() >= MOST {
            make_room(clients)?;
        }
        let client = self.connect(&key);
        clients.insert(key.clone(), client.clone());
        actix_web::rt::spawn(self.clone().watch_over(key, client.clone()));
        Ok(client)
    }

    fn connect(&self, key: &ClientKey) -> Arc<Client> {
        let (router, kept) = match key {
            ClientKey::Sse(_) => (Router::Single, self.outbox),
            ClientKey::Http(_) => (Router::per_session(), self.outbox),
            // A WebSocket that breaks cannot be taken up again.
            ClientKey::WebSocket(_) => (Router::Single, 0),
        };
        let (requests, source) = request_pipe();
        let client = Client::new(router, self.outbox, kept, requests);
        let peer = Peer { transport: key.transport(), pid: None };
        self.runtime.connect(source, ResponseSink::new(client.clone()), peer);
        client
    }

    async fn watch_over(self: Arc<Self>, key: ClientKey, client: Arc<Client>) {
        let (mut streams, mut ended) = (client.streams(), client.ended());
        // The senders live in the client, so no wait ends early.
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

    /// Detaches a client. One that has taken its name meanwhile is another.
    pub(crate) fn close(&self, key: &ClientKey, client: &Arc<Client>) {
        // Not only its input: with much unread its connection would never come to see the end of that.
        client.end();
        let mut open = self.open();
        if let Some(clients) = open.as_mut()
            && clients.get(key).is_some_and(|found| Arc::ptr_eq(found, client))
        {
            clients.remove(key);
        }
    }

    /// Bytes that wait for all of them.
    pub(crate) fn unread(&self) -> u64 {
        let open = self.open();
        open.iter().flat_map(HashMap::values).map(|client| client.unread() as u64).sum()
    }

    /// Ends all streams, once they have handed out what waits, and lets nobody else in.
    pub(crate) fn end_all(&self) {
        let clients = self.open().take();
        clients.into_iter().flatten().for_each(|(_, client)| client.end());
    }

    fn open(&self) -> MutexGuard<'_, Option<HashMap<ClientKey, Arc<Client>>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
