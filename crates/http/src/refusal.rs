//! Why a request is refused: a status, and a JSON body that says it in a word and in a sentence.

use std::fmt;

use actix_web::http::header::{HeaderValue, WWW_AUTHENTICATE};
use actix_web::http::{ConnectionType, StatusCode};
use actix_web::{HttpResponse, ResponseError};
use serde_json::json;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    NoToken,
    /// Called by a name that is not ours.
    Host,
    Origin,
    /// The agent's, or what cannot be told apart from it.
    OwnCommand,
    NoSuchPath,
    Method,
    /// The request lacks something, or has it wrong.
    Bad(&'static str),
    NotJson,
    Batch,
    ContentType,
    Accept,
    TooLong,
    TooSlow,
    NoSuchConnection,
    NoSuchSession,
    /// What the client has missed is gone.
    Lost,
    TooManyClients,
    /// The client leaves so much unread that nothing more is taken from it.
    Stuck,
    ShuttingDown,
    NoAnswer,
}

impl Refusal {
    /// Whoever was not let in does not keep one of the few connections either.
    fn ends_connection(self) -> bool {
        matches!(self, Self::NoToken | Self::Host | Self::Origin | Self::OwnCommand)
    }

    /// Status, word and sentence.
    fn parts(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::NoToken => {
                let why = "this needs the daemon's token as `Authorization: Bearer TOKEN`";
                (StatusCode::UNAUTHORIZED, "unauthorized", why)
            }
            Self::Host => {
                (StatusCode::MISDIRECTED_REQUEST, "wrong_host", "the Host of this request is no name of this daemon's")
            }
            Self::Origin => (StatusCode::FORBIDDEN, "forbidden_origin", "requests from this Origin are not allowed"),
            Self::OwnCommand => {
                (StatusCode::FORBIDDEN, "own_command", "the agent's own commands may not connect to the daemon")
            }
            Self::NoSuchPath => (StatusCode::NOT_FOUND, "not_found", "there is nothing here"),
            Self::Method => {
                (StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "this path does not take that method")
            }
            Self::Bad(why) => (StatusCode::BAD_REQUEST, "bad_request", why),
            Self::NotJson => (StatusCode::BAD_REQUEST, "not_json", "the body is not a JSON object"),
            Self::Batch => {
                (StatusCode::NOT_IMPLEMENTED, "batch", "batches are not taken; send the messages one by one")
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
                let why = "there is no such connection; it may have ended: initialize another";
                (StatusCode::NOT_FOUND, "unknown_connection", why)
            }
            Self::NoSuchSession => (StatusCode::NOT_FOUND, "unknown_session", "there is no such session"),
            Self::Lost => {
                let why = "what this client has missed is not kept any more; initialize again and load the sessions";
                (StatusCode::CONFLICT, "lost", why)
            }
            Self::TooManyClients => {
                (StatusCode::SERVICE_UNAVAILABLE, "too_many_clients", "too many clients are connected")
            }
            Self::Stuck => {
                let why = "the client does not read its stream, so nothing more is taken from it";
                (StatusCode::SERVICE_UNAVAILABLE, "not_reading", why)
            }
            Self::ShuttingDown => (StatusCode::SERVICE_UNAVAILABLE, "leaving", "the daemon is leaving"),
            Self::NoAnswer => (StatusCode::GATEWAY_TIMEOUT, "no_answer", "the agent did not answer in time"),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.parts().2)
    }
}

impl ResponseError for Refusal {
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
