//! The server below the routes: accepts connections, detects HTTP/1.1 or HTTP/2, and limits their
//! number and duration.
//!
//! actix-web's own server waits for the first bytes of a connection without a timeout, so a silent
//! client would occupy it forever. This file therefore assembles the server from its parts.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::ops::Deref;
use std::os::fd::AsFd;
use std::time::Duration;

use actix_http::{HttpService, KeepAlive, Protocol};
use actix_service::{IntoServiceFactory, ServiceFactoryExt, fn_service, map_config};
use actix_web::body::MessageBody;
use actix_web::dev::{AppConfig, Extensions, Server, ServiceFactory, ServiceRequest, ServiceResponse};
use actix_web::rt::net::TcpStream;
use actix_web::{App, Error};
use rustix::net::{Shutdown, sockopt};
use rustls::ServerConfig;
use tokio::sync::oneshot;
use tokio_rustls::server::TlsStream;

use crate::guard::PeerVerdict;

/// The maximum number of connections, streams included.
const CONNECTIONS: usize = 512;
/// How long a client may take to send the first byte, and then the head of its request.
const HEAD_DEADLINE: Duration = Duration::from_secs(5);
/// How long a connection may go without a request that is admitted. Over HTTP/2 it would otherwise
/// stay open for as long as the other end answers pings, even without the token.
const ADMISSION_DEADLINE: Duration = Duration::from_secs(10);
/// How long a connection without a request stays open.
const IDLE: Duration = Duration::from_secs(30);
/// How long a client may leave bytes unread or unacknowledged before the kernel ends its
/// connection.
const UNREAD: Duration = Duration::from_secs(60);
/// How long connections may take to end when the daemon shuts down, in seconds.
const SHUTDOWN_SECONDS: u64 = 1;

/// The first bytes of an HTTP/2 connection.
const PREFACE: &[u8] = b"PRI * HTTP/2";

pub(crate) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    // Connections inherit both settings from the listener.
    sockopt::set_socket_keepalive(&listener, true)?;
    system::end_unacknowledged(&listener, UNREAD)?;
    Ok(listener)
}

/// Starts the server. Must be called inside an actix system.
pub(crate) fn serve<S, B>(
    listener: TcpListener,
    tls: Option<ServerConfig>,
    app: impl Fn() -> App<S> + Clone + Send + 'static,
) -> io::Result<Server>
where
    S: ServiceFactory<ServiceRequest, Config = (), Response = ServiceResponse<B>, Error = Error, InitError = ()>
        + 'static,
    S::Service: 'static,
    B: MessageBody + 'static,
{
    let builder = Server::build()
        .workers(1)
        .disable_signals()
        .max_concurrent_connections(CONNECTIONS)
        .shutdown_timeout(SHUTDOWN_SECONDS);
    // This is a macro because the two services have different types, and neither type can be named.
    macro_rules! service {
        ($app:expr, $watch:expr) => {
            HttpService::build()
                .keep_alive(KeepAlive::Timeout(IDLE))
                .client_request_timeout(HEAD_DEADLINE)
                .client_disconnect_timeout(HEAD_DEADLINE)
                .h1_allow_half_closed(false)
                .tcp_nodelay(true)
                .on_connect_ext($watch)
                .finish(map_config($app.into_factory().map_err(|error: Error| error.error_response()), |_| {
                    AppConfig::default()
                }))
        };
    }
    let builder = match tls {
        Some(config) => {
            builder.listen("https", listener, move || service!(app(), watch_tls).rustls_0_23(config.clone()))?
        }
        None => {
            builder.listen("http", listener, move || fn_service(detect_protocol).and_then(service!(app(), watch)))?
        }
    };
    Ok(builder.run())
}

/// Does the same as `watch` for a connection with TLS.
fn watch_tls(io: &impl Deref<Target = TlsStream<TcpStream>>, connection: &mut Extensions) {
    watch(io.get_ref().0, connection);
}

/// Ends a connection unless a request is admitted in time.
fn watch(socket: &TcpStream, connection: &mut Extensions) {
    let (unadmitted, admitted_or_closed) = oneshot::channel();
    // The other end may have closed the connection, so the result of a shutdown does not matter.
    match socket.as_fd().try_clone_to_owned() {
        Ok(socket) => drop(actix_web::rt::spawn(async move {
            if tokio::time::timeout(ADMISSION_DEADLINE, admitted_or_closed).await.is_err() {
                let _ = rustix::net::shutdown(&socket, Shutdown::Both);
            }
        })),
        Err(error) => {
            tracing::warn!(%error, "ended a connection that cannot be watched");
            let _ = rustix::net::shutdown(socket, Shutdown::Both);
        }
    }
    connection.insert(PeerVerdict::new(unadmitted));
}

async fn detect_protocol(
    io: TcpStream,
) -> Result<(TcpStream, Protocol, Option<SocketAddr>), actix_http::error::DispatchError> {
    let mut first = [0; PREFACE.len()];
    let seen = tokio::time::timeout(HEAD_DEADLINE, io.peek(&mut first)).await;
    seen.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    let protocol = if first == PREFACE { Protocol::Http2 } else { Protocol::Http1 };
    io.set_nodelay(true)?;
    let peer = io.peer_addr().ok();
    Ok((io, protocol, peer))
}
