//! Accounts that a test controls: the key is the variable `SCRIPT_KEY`, and a login ends when the
//! test ends it.

use std::sync::{Arc, Mutex};

use domain::Environment;
use domain::account::{AccountError, Accounts, DeviceLogin, KeyVariable};
use futures_util::future::{BoxFuture, ready};
use tokio::sync::oneshot;

type Ending = oneshot::Sender<Result<(), AccountError>>;

#[derive(Clone, Default)]
pub struct TestAccounts(Arc<Mutex<Option<Ending>>>);

impl TestAccounts {
    /// Ends the pending login.
    pub fn finish_login(&self, result: Result<(), String>) {
        self.0.lock().unwrap().take().expect("a login waits").send(result.map_err(AccountError::Provider)).unwrap();
    }

    /// Whether the future of the latest login was dropped.
    pub fn is_given_up(&self) -> bool {
        self.0.lock().unwrap().as_ref().is_none_or(oneshot::Sender::is_closed)
    }
}

impl Accounts for TestAccounts {
    fn variables(&self) -> Vec<KeyVariable> {
        vec![KeyVariable::new("SCRIPT_KEY", "Script key", Some("https://script.example/keys"))]
    }

    fn is_authenticated(&self, environment: &Environment) -> BoxFuture<'static, bool> {
        Box::pin(ready(environment.get("SCRIPT_KEY").is_some()))
    }

    fn begin_login(&self) -> BoxFuture<'static, Result<DeviceLogin, AccountError>> {
        let (end, ended) = oneshot::channel();
        *self.0.lock().unwrap() = Some(end);
        let done = async { ended.await.unwrap_or_else(|_| Err(AccountError::Provider("given up".to_owned()))) };
        let login = DeviceLogin {
            address: "https://login.example/device".to_owned(),
            code: "ABCD-1234".to_owned(),
            done: Box::pin(done),
        };
        Box::pin(ready(Ok(login)))
    }

    fn forget(&self) -> BoxFuture<'static, Result<(), AccountError>> {
        Box::pin(ready(Ok(())))
    }
}
