//! The address on this machine to which the browser is sent at the end of a login.
//!
//! It listens on 127.0.0.1 while the user's command waits. Other programs and pages can reach it,
//! too, so it takes only the answer with the `state` of this login, and limits everything that it
//! reads.

use std::time::Duration;

use reqwest::Url;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::LoginError;
use super::redirect::{MAX_ADDRESS_BYTES, Redirected};

const PATH: &str = "/callback";

/// How long a client may take to send its request and to read the answer.
const CLIENT_DEADLINE: Duration = Duration::from_secs(10);

/// The most connections at a time. Browsers open some in advance.
const MAX_CONNECTIONS: usize = 32;

pub struct RedirectListener {
    listener: TcpListener,
    uri: String,
}

impl RedirectListener {
    /// Listens on this port, or on any free one.
    ///
    /// # Errors
    ///
    /// If the port is in use.
    pub async fn bind(port: Option<u16>) -> Result<Self, LoginError> {
        let listener = TcpListener::bind(("127.0.0.1", port.unwrap_or(0))).await.map_err(LoginError::Listen)?;
        let address = listener.local_addr().map_err(LoginError::Listen)?;
        Ok(Self { listener, uri: format!("http://{address}{PATH}") })
    }

    /// Returns the address for the browser.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Waits for the browser. A request with another state gets an error, and the wait continues.
    ///
    /// # Errors
    ///
    /// If no connections can be accepted any more.
    pub async fn wait(&self, state: &str) -> Result<Redirected, LoginError> {
        let mut open = JoinSet::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept(), if open.len() < MAX_CONNECTIONS => {
                    let (stream, _) = accepted.map_err(LoginError::Listen)?;
                    let state = state.to_owned();
                    open.spawn(async move { timeout(CLIENT_DEADLINE, answer(stream, &state)).await.ok().flatten() });
                }
                Some(done) = open.join_next() => {
                    if let Ok(Some(redirected)) = done {
                        return Ok(redirected);
                    }
                }
            }
        }
    }
}

/// Answers one request. Returns what it reports if it belongs to this login.
async fn answer(mut stream: TcpStream, state: &str) -> Option<Redirected> {
    let read = read(&mut stream).await;
    let (status, words) = match &read {
        Request::Login(redirected) if redirected.state != state => {
            ("400 Bad Request", "This answer does not belong to the login that acpd waits for.")
        }
        Request::Login(Redirected { answer: Ok(_), .. }) => {
            ("200 OK", "acpd has the answer of the server. You can close this page and go back to the terminal.")
        }
        Request::Login(_) => ("200 OK", "The login was refused. The terminal has the reason."),
        Request::Elsewhere => ("404 Not Found", "There is nothing here."),
        Request::Wrong => ("400 Bad Request", "acpd cannot use this answer."),
    };
    // The address of this page has the code in it, which must not reach other sites.
    let reply = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\n\
         cache-control: no-store\r\nreferrer-policy: no-referrer\r\nx-content-type-options: nosniff\r\n\
         connection: close\r\n\r\n{words}",
        words.len()
    );
    // A browser that is gone has still delivered its answer.
    let _ = stream.write_all(reply.as_bytes()).await;
    let _ = stream.shutdown().await;
    match read {
        Request::Login(redirected) => Some(redirected).filter(|redirected| redirected.state == state),
        Request::Elsewhere | Request::Wrong => None,
    }
}

enum Request {
    Login(Redirected),
    /// Another page, such as the icon that browsers ask for.
    Elsewhere,
    Wrong,
}

async fn read(stream: &mut TcpStream) -> Request {
    let mut head = Vec::new();
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        if head.len() > MAX_ADDRESS_BYTES || !matches!(stream.read_buf(&mut head).await, Ok(1..)) {
            return Request::Wrong;
        }
    }
    parse(&head)
}

fn parse(head: &[u8]) -> Request {
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let Ok(line) = std::str::from_utf8(line) else { return Request::Wrong };
    let mut words = line.split(' ');
    let (Some("GET"), Some(target)) = (words.next(), words.next()) else { return Request::Wrong };
    let base = Url::parse("http://127.0.0.1/").ok();
    let Some(url) = base.filter(|_| target.starts_with('/')).and_then(|base| base.join(target).ok()) else {
        return Request::Wrong;
    };
    if url.path() != PATH {
        return Request::Elsewhere;
    }
    Redirected::of(&url).map_or(Request::Wrong, Request::Login)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn get(uri: &str, target: &str) -> String {
        let address = uri.trim_start_matches("http://").split('/').next().unwrap().to_owned();
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(format!("GET {target} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn only_the_answer_with_the_right_state_ends_the_wait() {
        let listener = RedirectListener::bind(None).await.unwrap();
        let uri = listener.uri().to_owned();
        let waiting = tokio::spawn(async move { listener.wait("right").await.unwrap() });
        // A connection that stays silent delays no other.
        let _silent = TcpStream::connect(uri.trim_start_matches("http://").split('/').next().unwrap()).await.unwrap();
        for (target, status) in [
            ("/favicon.ico", "404"),
            ("/", "404"),
            ("/callback", "400"),
            ("/callback?code=c", "400"),
            ("/callback?code=stolen&state=wrong", "400"),
            ("/callback?error=access_denied&state=wrong", "400"),
            ("http://a.example/callback?code=c&state=right", "400"),
        ] {
            let answer = get(&uri, target).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{target}: {answer}");
        }
        assert!(!waiting.is_finished());
        let answer = get(&uri, "/callback?code=c0de&state=right").await;
        assert!(answer.starts_with("HTTP/1.1 200 OK") && !answer.contains("c0de"), "{answer}");
        assert_eq!(waiting.await.unwrap().answer.as_deref(), Ok("c0de"));
    }

    #[tokio::test]
    async fn a_request_without_end_is_not_read_to_its_end() {
        let listener = RedirectListener::bind(None).await.unwrap();
        let address = listener.listener.local_addr().unwrap();
        let waiting = tokio::spawn(async move { listener.wait("s").await.map(drop) });
        let mut stream = TcpStream::connect(address).await.unwrap();
        let mut written = 0;
        while stream.write_all(&[b'x'; 64 << 10]).await.is_ok() {
            written += 64 << 10;
        }
        assert!(written < 64 << 20 && !waiting.is_finished());
        waiting.abort();
    }
}
