//! The port to accounts with model providers: checks for a key, logs in and logs out. Keys
//! themselves never cross this port.

use futures_util::future::BoxFuture;

use crate::Environment;

pub trait Accounts: Send + Sync + 'static {
    /// Lists the variables that may hold a key.
    fn variables(&self) -> Vec<KeyVariable>;

    /// Whether any provider has a key, either in this environment or stored.
    fn is_authenticated(&self, environment: &Environment) -> BoxFuture<'static, bool>;

    /// Begins a login at an address that a user opens.
    fn begin_login(&self) -> BoxFuture<'static, Result<DeviceLogin, AccountError>>;

    /// Deletes the key that a login stored.
    fn forget(&self) -> BoxFuture<'static, Result<(), AccountError>>;
}

/// Why a login failed, or could not be undone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccountError {
    #[error("no GitHub application is configured; set `login.github.client_id` in the configuration")]
    NotConfigured,
    /// The provider refused, or cannot be reached.
    #[error("{0}")]
    Provider(String),
    /// The key could not be stored or removed.
    #[error("{0}")]
    Store(String),
}

/// An environment variable that may hold a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyVariable {
    pub name: String,
    /// A human-readable name for the key.
    pub label: String,
    /// The page where users get a key.
    pub link: Option<String>,
}

impl KeyVariable {
    pub fn new(name: &str, label: &str, link: Option<&str>) -> Self {
        Self { name: name.to_owned(), label: label.to_owned(), link: link.map(str::to_owned) }
    }
}

/// A login that waits for a user.
pub struct DeviceLogin {
    /// The address to open in a browser, without the code in it.
    pub address: String,
    /// The code to type at `address`.
    pub code: String,
    /// Resolves when the key is stored, or with the reason why the login failed.
    pub done: BoxFuture<'static, Result<(), AccountError>>,
}
