//! Logins to remote servers that ask for one, with OAuth.
//!
//! `flow` leads through a login: it finds the authorization server, registers acpd there, and turns
//! the code that the browser brings back (`redirect`, `listener`) into tokens. Only the user's own
//! command does that. `store` keeps the tokens in private files, `token` knows their form, and
//! `bearer` gives connections a valid token and renews it; `demand` reads which login a server
//! wants. `address` decides which addresses may be used at all, and `oauth_http` is the HTTP client
//! of a login, with limits.
//!
//! A token belongs to the exact address of its server and is sent to no other. It is never logged,
//! shown or put into an error.

mod address;
mod bearer;
mod demand;
mod flow;
mod listener;
mod oauth_http;
mod redirect;
mod store;
mod token;

pub(crate) use self::address::shown as shown_address;
pub(crate) use self::bearer::{Bearer, Renewal};
pub(crate) use self::demand::Demand;
pub use self::flow::{LoginTarget, PendingLogin, SplitLogin};
pub use self::listener::RedirectListener;
pub use self::redirect::Redirected;
pub(crate) use self::store::Version;
pub use self::store::{StoredFile, StoredLogins};
pub use self::token::Login;

#[cfg(test)]
pub(crate) use self::bearer::tests;

/// Why a login fails. No text contains a token, a code or a client's secret.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    #[error("`{0}` is not the address of a server; it needs https, or http on this machine")]
    Address(String),
    #[error("the server needs no login: it answers without one, and does not publish how to log in")]
    NotNeeded,
    #[error("the server does not publish how to log in (no OAuth metadata)")]
    NoMetadata,
    #[error("the server names an address that is not safe for a login: {0}")]
    Endpoint(String),
    #[error("the authorization server does not support registration; register acpd there and set `oauth.client_id`")]
    NoRegistration,
    #[error("the address does not belong to this login: {0}")]
    Redirect(&'static str),
    #[error("the authorization server refused: {0}")]
    Refused(String),
    #[error("{0}")]
    Protocol(String),
    #[error("waiting for the browser")]
    Listen(#[source] std::io::Error),
    #[error("storing the login")]
    Store(#[source] std::io::Error),
    #[error("reaching the server")]
    Client(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Returns a text of a server on one line, with invisible characters escaped, within a limit.
fn plain(text: &str) -> String {
    domain::text::cut(&domain::escape::line(text.trim()), 300)
}
