//! Why a request is refused: a status, and a JSON body with a code and a sentence.

use std::fmt;

use actix_web::http::header::{HeaderValue, WWW_AUTHENTICATE};
use actix_web::http::{ConnectionType, StatusCode};
use actix_web::{HttpResponse, ResponseError};
use serde_json::json;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HttpRefusal {
    NoToken,
    /// The Host header does not name this server.
    Host,
    Origin,
    /// The agent started the process that connects, or the process cannot be identified.
    OwnCommand,
    NoSuchPath,
    Method,
    /// The request is incomplete or wrong; the text explains how.
    Bad(&'static str),
    NotJson,
    Batch,
    ContentType,
    Accept,
    TooLong,
    TooSlow,
    NoSuchConnection,
    NoSuchSession,
    /// The frames that the client missed are no longer kept.
    Lost,
    TooManyClients,
    /// The client has so many unread frames that no more messages are accepted from it.
    Stuck,
    /// Other clients send so many long messages that there is no room for this one.
    TooBusy,
    ShuttingDown,
    NoAnswer,
}

impl HttpRefusal {
    /// Whether to close the connection: a client without access must not occupy one of the limited
    /// connections.
    fn ends_connection(self) -> bool {
        matches!(self, Self::NoToken | Self::Host | Self::Origin | Self::OwnCommand)
    }

    /// The status, the code and the sentence.
    fn parts(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::NoToken => {
                let why = "send the daemon's token in the header `Authorization: Bearer TOKEN`";
                (StatusCode::UNAUTHORIZED, "unauthorized", why)
            }
            Self::Host => (
                StatusCode::MISDIRECTED_REQUEST,
                "wrong_host",
                "the Host header is not a name of this daemon; add it to http.hosts",
            ),
            Self::Origin => (
                StatusCode::FORBIDDEN,
                "forbidden_origin",
                "requests from this Origin are not allowed; add it to http.allowed_origins",
            ),
            Self::OwnCommand => {
                (StatusCode::FORBIDDEN, "own_command", "the agent's own commands may not connect to the daemon")
            }
            Self::NoSuchPath => (StatusCode::NOT_FOUND, "not_found", "this path does not exist"),
            Self::Method => {
                (StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "this path does not support that method")
            }
            Self::Bad(why) => (StatusCode::BAD_REQUEST, "bad_request", why),
            Self::NotJson => (StatusCode::BAD_REQUEST, "not_json", "the body is not a JSON object"),
            Self::Batch => {
                (StatusCode::NOT_IMPLEMENTED, "batch", "batches are not supported; send one message per request")
            }
            Self::ContentType => {
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, "content_type", "the Content-Type must be application/json")
            }
            Self::Accept => (StatusCode::NOT_ACCEPTABLE, "not_acceptable", "the client must accept text/event-stream"),
            Self::TooLong => {
                (StatusCode::PAYLOAD_TOO_LARGE, "too_long", "the message is longer than limits.frame allows")
            }
            Self::TooSlow => (StatusCode::REQUEST_TIMEOUT, "too_slow", "the body came too slowly"),
            Self::NoSuchConnection => {
                let why = "this connection does not exist or has ended; send initialize again";
                (StatusCode::NOT_FOUND, "unknown_connection", why)
            }
            Self::NoSuchSession => (StatusCode::NOT_FOUND, "unknown_session", "there is no such session"),
            Self::Lost => {
                let why = "the messages that this client missed are no longer kept; send initialize again and load the sessions";
                (StatusCode::CONFLICT, "lost", why)
            }
            Self::TooManyClients => (
                StatusCode::SERVICE_UNAVAILABLE,
                "too_many_clients",
                "too many clients are connected; close one and try again",
            ),
            Self::Stuck => {
                let why = "the client does not read its stream, so no more messages are accepted from it";
                (StatusCode::SERVICE_UNAVAILABLE, "not_reading", why)
            }
            Self::TooBusy => {
                let why = "other clients are sending long messages; try again in a moment";
                (StatusCode::SERVICE_UNAVAILABLE, "too_busy", why)
            }
            Self::ShuttingDown => (StatusCode::SERVICE_UNAVAILABLE, "shutting_down", "the daemon is shutting down"),
            Self::NoAnswer => (StatusCode::GATEWAY_TIMEOUT, "no_answer", "the agent did not answer in time"),
        }
    }
}

impl fmt::Display for HttpRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.parts().2)
    }
}

impl ResponseError for HttpRefusal {
    fn status_code(&self) -> StatusCode {
        self.parts().0
    }

    fn error_response(&self) -> HttpResponse {
        let (status, word, sentence) = self.parts();
        let mut response = HttpResponse::build(status).json(json!({ "error": word, "message": sentence }));
        if *self == Self::NoToken {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"acpd\""));
        }
        if self.ends_connection() {
            response.head_mut().set_connection_type(ConnectionType::Close);
        }
        response
    }
}
