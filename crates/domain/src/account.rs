//! The port to accounts with model providers: is there a key, get one, forget it. No key ever passes through here.

use futures_util::future::BoxFuture;

use crate::Environment;

pub trait Accounts: Send + Sync + 'static {
    /// The variables that may hold a key.
    fn variables(&self) -> Vec<KeyVariable>;

    /// Whether some provider has a key, in this environment or stored.
    fn is_authenticated(&self, environment: &Environment) -> BoxFuture<'static, bool>;

    /// Begins a login at an address that a person opens.
    fn begin_login(&self) -> BoxFuture<'static, Result<Login, String>>;

    /// Forgets what a login stored.
    fn forget(&self) -> BoxFuture<'static, Result<(), String>>;
}

/// A variable of the environment that may hold a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyVariable {
    pub name: String,
    /// What people call the key.
    pub label: String,
    /// The page on which people get one.
    pub link: Option<String>,
}

impl KeyVariable {
    pub fn new(name: &str, label: &str, link: Option<&str>) -> Self {
        Self { name: name.to_owned(), label: label.to_owned(), link: link.map(str::to_owned) }
    }
}

/// A login that waits for a person.
pub struct Login {
    /// What to open, without the code in it.
    pub address: String,
    /// What to type there.
    pub code: String,
    /// Resolves when the key is stored, or with the reason why there is none.
    pub done: BoxFuture<'static, Result<(), String>>,
}
