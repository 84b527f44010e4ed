//! The HTTP transports, for clients that cannot open a Unix socket. Off unless the configuration says where to listen.
//!
//! Started by the daemon, inside its actix system, and ended with its drain. Every client is fed into a `Connection` through
//! an in-process pipe; what is said is the connection's business, and nothing here knows more of a message than which
//! stream it belongs to.

mod body;
mod client;
mod clients;
mod guard;
mod health;
mod lane;
mod peer;
mod pipe;
mod post;
mod refusal;
mod routing;
mod rpc;
mod server;
mod settings;
mod sse;
mod streamable;
mod tls;
mod token;
mod websocket;

use std::sync::Arc;

use acpd_actors::Runtime;
use actix_web::dev::ServerHandle;
use actix_web::middleware::from_fn;
use actix_web::{App, HttpRequest, web};
use anyhow::Context;

use crate::config::Config;
use crate::launch::owner;
use crate::metrics::Metrics;
use crate::paths::Places;

use self::clients::Clients;
use self::guard::{Guard, guard};
use self::refusal::Refusal;
use self::token::Token;

pub use settings::Settings;

/// What holds for every request.
struct Limits {
    frame: usize,
}

/// The server, as long as the daemon has one.
pub struct Http {
    clients: Arc<Clients>,
    server: ServerHandle,
}

impl Http {
    /// Listens where the configuration says; None if it says nowhere. Must be called inside an actix system.
    pub fn open(
        places: &Places,
        config: &Config,
        runtime: &Runtime,
        metrics: Arc<Metrics>,
    ) -> anyhow::Result<Option<Self>> {
        let settings = &config.http;
        let Some(listen) = settings.listen else { return Ok(None) };
        let file = settings.token_file.clone().unwrap_or_else(|| places.http_token());
        let token = Token::load(&file)?;
        let listener = server::bind(listen).with_context(|| format!("cannot listen for HTTP on {listen}"))?;
        let address = listener.local_addr()?;
        let clients = Clients::new(runtime.clone(), config.limits.outbox, settings.detach_after());
        let guarding = web::Data::new(Guard::new(token, address, owner(places), settings));
        let shared = web::Data::from(clients.clone());
        let limits = web::Data::new(Limits { frame: config.limits.frame });
        let metrics = web::Data::from(metrics);
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
        let server = server::serve(listener, tls, app)?;
        let handle = server.handle();
        actix_web::rt::spawn(server);
        tracing::info!(%address, token = %file.display(), "listening for HTTP");
        Ok(Some(Self { clients, server: handle }))
    }

    /// Lets nobody else in, ends the streams once they have handed out what waits, and then the connections.
    pub async fn close(self) {
        self.clients.end_all();
        self.server.stop(true).await;
    }
}

/// Whether the files that the settings name can be used, where they are needed.
pub fn check_files(settings: &Settings) -> anyhow::Result<()> {
    match settings.listen {
        Some(_) => tls(settings).map(|_| ()).context("http.tls_cert and http.tls_key"),
        None => Ok(()),
    }
}

/// None without TLS. That there are both files or none was checked with the configuration.
fn tls(settings: &Settings) -> anyhow::Result<Option<rustls::ServerConfig>> {
    match (&settings.tls_cert, &settings.tls_key) {
        (Some(cert), Some(key)) => tls::config(cert, key).map(Some),
        (Some(_) | None, _) => Ok(None),
    }
}

fn routes(app: &mut web::ServiceConfig) {
    let method = || web::route().to(async || Err::<String, _>(Refusal::Method));
    app.service(
        web::resource("/acp")
            .route(web::post().to(streamable::post))
            .route(web::get().to(streamable::get))
            .route(web::delete().to(streamable::delete))
            .default_service(method()),
    )
    .service(web::resource("/acp/rpc").route(web::post().to(rpc::post)).default_service(method()))
    .service(
        web::resource("/acp/sse")
            .route(web::get().to(rpc::stream))
            .route(web::delete().to(rpc::delete))
            .default_service(method()),
    )
    .service(web::resource("/healthz").route(web::get().to(health::healthz)).default_service(method()))
    .service(web::resource("/metrics").route(web::get().to(health::metrics)).default_service(method()))
    .default_service(web::route().to(async || Err::<String, _>(Refusal::NoSuchPath)));
}

/// The last event that the client has, if it says so.
fn last_event_id(request: &HttpRequest) -> Result<Option<u64>, Refusal> {
    let Some(given) = request.headers().get("last-event-id") else { return Ok(None) };
    let number = given.to_str().ok().and_then(|given| given.trim().parse().ok());
    number.map(Some).ok_or(Refusal::Bad("Last-Event-ID is no number of an event"))
}
