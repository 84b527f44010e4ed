//! The HTTP and WebSocket transports, for clients that cannot open a Unix socket. Off unless the
//! configuration sets an address to listen on.
//!
//! The daemon starts the server inside its actix system and closes it while it drains. Every client
//! gets a `Connection`, which reads and writes an in-process pipe. This crate reads only as much of
//! a message as it needs to choose the stream that the message belongs to. It knows no storage, no
//! models and no tools: the program passes in what it needs of them (`HttpParts`).

mod body;
mod client;
mod client_registry;
mod error;
mod frame_buffer;
mod guard;
mod health;
mod meter;
mod peer_process;
mod pipe;
mod posted_message;
mod refusal;
mod router;
mod server;
mod settings;
mod sse;
mod streamable;
mod tls;
mod token;
mod two_endpoints;
mod websocket;

use std::path::PathBuf;
use std::sync::Arc;
use std::{fmt, io};

use acpd_actors::{Overview, Runtime};
use actix_web::dev::ServerHandle;
use actix_web::middleware::from_fn;
use actix_web::{App, HttpRequest, web};

use crate::body::BodyBudget;
use crate::client_registry::ClientRegistry;
use crate::guard::{Guard, guard};
use crate::refusal::HttpRefusal;
use crate::token::Token;

pub use error::Error;
pub use settings::HttpSettings;

/// Returns whether a process, given by its pid, was started by the agent. Such a process may not
/// connect.
pub type ProcessCheck = Arc<dyn Fn(u32) -> io::Result<bool> + Send + Sync>;

/// Writes the metrics in their text form, given the state of the daemon and the bytes that wait for
/// HTTP clients.
pub type MetricsText = Arc<dyn Fn(&Overview, u64) -> Result<String, fmt::Error> + Send + Sync>;

/// The parts that the program passes in.
pub struct HttpParts {
    pub runtime: Runtime,
    pub metrics: MetricsText,
    pub is_own_process: ProcessCheck,
    /// Where the token is kept if the settings do not name a file.
    pub token_file: PathBuf,
    /// The longest message that a client may send, in bytes.
    pub frame_limit: usize,
    /// Bytes that may wait for one client.
    pub outbox_limit: usize,
}

/// The limits that apply to every request.
struct Limits {
    frame: usize,
    bodies: BodyBudget,
}

impl Limits {
    fn new(frame: usize) -> Self {
        Self { frame, bodies: BodyBudget::for_messages_of(frame) }
    }
}

/// The running server.
pub struct HttpServer {
    clients: Arc<ClientRegistry>,
    server: ServerHandle,
}

impl HttpServer {
    /// Starts to listen on the configured address. Returns `None` if there is none. Must be called
    /// inside an actix system.
    pub fn open(settings: &HttpSettings, parts: HttpParts) -> Result<Option<Self>, Error> {
        let Some(listen) = settings.listen else { return Ok(None) };
        let file = settings.token_file.clone().unwrap_or(parts.token_file);
        let token = Token::load(&file)?;
        let cannot_listen = |source| Error::Listen { address: listen, source };
        let listener = server::bind(listen).map_err(cannot_listen)?;
        let address = listener.local_addr().map_err(cannot_listen)?;
        let clients = ClientRegistry::new(parts.runtime, parts.outbox_limit, settings.detach_after());
        let guarding = web::Data::new(Guard::new(token, address, parts.is_own_process, settings));
        let shared = web::Data::from(clients.clone());
        let limits = web::Data::new(Limits::new(parts.frame_limit));
        let metrics = web::Data::new(parts.metrics);
        let tls = tls(settings)?;
        let app = move || {
            App::new()
                .app_data(guarding.clone())
                .app_data(shared.clone())
                .app_data(limits.clone())
                .app_data(metrics.clone())
                .wrap(from_fn(guard))
                .configure(routes)
        };
        let server = server::serve(listener, tls, app).map_err(cannot_listen)?;
        let handle = server.handle();
        actix_web::rt::spawn(server);
        tracing::info!(%address, token = %file.display(), "listening for HTTP");
        Ok(Some(Self { clients, server: handle }))
    }

    /// Accepts no new client, ends each stream once it has sent what waits, and then closes the
    /// connections.
    pub async fn close(self) {
        self.clients.end_all();
        self.server.stop(true).await;
    }
}

/// Checks that the TLS files in the settings can be used, if HTTP is on.
pub fn check_files(settings: &HttpSettings) -> Result<(), Error> {
    match settings.listen {
        Some(_) => tls(settings).map(|_| ()),
        None => Ok(()),
    }
}

/// The TLS configuration, or `None` without TLS. The settings were checked to name both files or
/// neither.
fn tls(settings: &HttpSettings) -> Result<Option<rustls::ServerConfig>, Error> {
    match (&settings.tls_cert, &settings.tls_key) {
        (Some(cert), Some(key)) => tls::config(cert, key).map(Some),
        (Some(_) | None, _) => Ok(None),
    }
}

fn routes(app: &mut web::ServiceConfig) {
    let method = || web::route().to(async || Err::<String, _>(HttpRefusal::Method));
    app.service(
        web::resource("/acp")
            .route(web::post().to(streamable::post))
            .route(web::get().to(streamable::get))
            .route(web::delete().to(streamable::delete))
            .default_service(method()),
    )
    .service(web::resource("/acp/rpc").route(web::post().to(two_endpoints::post)).default_service(method()))
    .service(
        web::resource("/acp/sse")
            .route(web::get().to(two_endpoints::stream))
            .route(web::delete().to(two_endpoints::delete))
            .default_service(method()),
    )
    .service(web::resource("/healthz").route(web::get().to(health::healthz)).default_service(method()))
    .service(web::resource("/metrics").route(web::get().to(health::metrics)).default_service(method()))
    .default_service(web::route().to(async || Err::<String, _>(HttpRefusal::NoSuchPath)));
}

/// The number of the last event that the client received, if its request has one.
fn last_event_id(request: &HttpRequest) -> Result<Option<u64>, HttpRefusal> {
    let Some(given) = request.headers().get("last-event-id") else { return Ok(None) };
    let number = given.to_str().ok().and_then(|given| given.trim().parse().ok());
    number.map(Some).ok_or(HttpRefusal::Bad("the header Last-Event-ID must be the number of an event"))
}
