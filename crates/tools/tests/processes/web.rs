//! Pages from a real server on loopback, which the settings allow by default.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;

use acpd_tools::{PrivateTarget, WebSettings};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::*;

/// Deep enough to overflow the stack, and not so deep that parsing takes long.
const DEPTH: usize = 3_000;

/// Answers by path, with one thread per connection. Lives as long as the test binary.
struct Server {
    port: u16,
    /// Receives the path of each request that was held open, when its client has disconnected.
    left: mpsc::Receiver<String>,
}

impl Server {
    fn start() -> Self {
        Self::listen(|stream| stream)
    }

    fn listen<S: Read + Write>(accept: impl Fn(TcpStream) -> S + Clone + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (leave, left) = mpsc::channel();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (accept, leave) = (accept.clone(), leave.clone());
                thread::spawn(move || serve(accept(stream.unwrap()), port, &leave));
            }
        });
        Self { port, left }
    }

    /// Starts the same server with TLS, and returns the certificate of its authority.
    fn start_secure() -> (Self, String) {
        let authority_key = rcgen::KeyPair::generate().unwrap();
        let mut authority = rcgen::CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let pem = authority.self_signed(&authority_key).unwrap().pem();
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = certificate.signed_by(&key, &rcgen::Issuer::new(authority, authority_key)).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let config = Arc::new(config.with_single_cert(vec![certificate.der().clone()], key).unwrap());
        let accept = move |stream| StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), stream);
        (Self::listen(accept), pem)
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }
}

fn serve(mut stream: impl Read + Write, port: u16, leave: &mpsc::Sender<String>) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read(&mut byte).unwrap_or(0) == 0 {
            return;
        }
        request.push(byte[0]);
    }
    let request = String::from_utf8(request).unwrap();
    let path = request.split(' ').nth(1).unwrap().to_owned();
    let body = |kind: &str, body: &[u8]| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n", body.len());
        [head.as_bytes(), body].concat()
    };
    let redirect = |to: &str| format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n").into_bytes();
    let answer = match path.as_str() {
        "/page" => {
            body("text/html", b"<head><title>x</title></head><h1>Title</h1><script>no()</script><p>Some <b>text</b>.")
        }
        "/json" => body("application/json", b"{\"a\": 1}"),
        "/latin1" => body("text/plain; charset=iso-8859-1", b"gr\xfcn"),
        "/pdf" => body("application/pdf", b"%PDF-1.7 \0\x01"),
        "/empty" => body("text/html", b""),
        "/echo" => body("text/plain", request.to_lowercase().as_bytes()),
        "/large" => body("text/plain", &b"0123456789".repeat(1000)),
        "/deep" => body("text/html", "<b><i>".repeat(DEPTH).as_bytes()),
        "/missing" => b"HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\n\r\n<p>No such page".to_vec(),
        "/relative" => redirect("page"),
        "/loop" => redirect("/loop"),
        "/to-metadata" => redirect("http://169.254.169.254/latest/meta-data"),
        "/to-other-loopback" => redirect(&format!("http://127.0.0.2:{port}/page")),
        "/to-file" => redirect("file:///etc/passwd"),
        "/to-credentials" => redirect("http://user:secret@example.com/"),
        "/slow" | "/endless" => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nsome").unwrap();
            while path == "/endless" && stream.write_all(&[b'x'; 4096]).is_ok() {}
            while matches!(stream.read(&mut [0; 64]), Ok(1..)) {}
            leave.send(path).unwrap();
            return;
        }
        other => panic!("asked for {other}"),
    };
    // A client that has read enough disconnects.
    let _ = stream.write_all(&answer).and_then(|()| stream.flush());
}

fn private(text: &str) -> PrivateTarget {
    PrivateTarget::try_from(text.to_owned()).unwrap()
}

fn bench_with(change: impl FnOnce(&mut WebSettings)) -> Bench {
    let mut settings = ToolSettings::new(std::env::current_exe().unwrap());
    settings.web.allow_private = vec![private("127.0.0.1")];
    change(&mut settings.web);
    Bench { registry: Arc::new(Registry::new(settings)), ..Bench::new() }
}

impl Bench {
    async fn fetch(&self, url: &str) -> Outcome {
        call(&self.registry, &self.site, "web_fetch", json!({"url": url})).await
    }
}

pub(super) async fn pages_become_text() {
    let (server, bench) = (Server::start(), bench_with(|_| {}));
    let cases = [
        ("/page", "# Title\n\nSome **text**."),
        ("/json", "{\"a\": 1}"),
        ("/latin1", "grün"),
        ("/empty", "[the page has no text]"),
    ];
    for (path, text) in cases {
        let outcome = bench.fetch(&server.url(path)).await;
        assert_eq!((outcome.verdict, outcome.text.as_str()), (OutcomeKind::Completed, text), "{path}");
    }
    let url = server.url("/pdf");
    let text = format!("{url} is application/pdf (a PDF document), 11 bytes; it is not shown");
    assert_eq!(bench.fetch(&url).await.text, text);
    let redirected = format!("# Title\n\nSome **text**.\n[redirected to {}]", server.url("/page"));
    assert_eq!(bench.fetch(&server.url("/relative")).await.text, redirected);
    let page = bench.fetch(&server.url("/echo")).await.text;
    assert!(page.contains("user-agent: acpd/") && !page.contains("cookie") && !page.contains("referer"), "{page}");
}

pub(super) async fn a_page_over_tls_is_fetched_only_from_a_server_with_a_trusted_certificate() {
    let (server, pem) = Server::start_secure();
    let url = format!("https://127.0.0.1:{}/page", server.port);
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("authority.pem");
    fs::write(&file, pem).unwrap();
    let bench = bench_with(|web| web.certificates = vec![file.clone()]);
    let outcome = bench.fetch(&url).await;
    assert_eq!((outcome.verdict, outcome.text.as_str()), (OutcomeKind::Completed, "# Title\n\nSome **text**."));

    let untrusted = bench_with(|_| {}).fetch(&url).await;
    assert_eq!(untrusted.verdict, OutcomeKind::Failed);
    assert!(untrusted.text.contains("certificate"), "{}", untrusted.text);
    // The certificate is valid for that name only.
    let by_name = bench_with(|web| {
        web.certificates = vec![file.clone()];
        web.allow_private.push(private("localhost"));
    });
    let outcome = by_name.fetch(&format!("https://localhost:{}/page", server.port)).await;
    assert!(outcome.verdict == OutcomeKind::Failed && outcome.text.contains("certificate"), "{}", outcome.text);
    fs::write(&file, "nothing of the kind").unwrap();
    let text = bench.fetch(&url).await.text;
    assert!(!text.contains("Title") && text.contains("certificate"), "{text}");
}

pub(super) async fn an_error_status_is_a_failure_with_the_page() {
    let (server, bench) = (Server::start(), bench_with(|_| {}));
    let url = server.url("/missing");
    let outcome = bench.fetch(&url).await;
    assert_eq!(outcome.verdict, OutcomeKind::Failed);
    assert_eq!(outcome.text, format!("{url} answered 404 Not Found\n\nNo such page"));
    assert_eq!(outcome.raw["status"], 404);
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let text = bench.fetch(&format!("http://{nobody}/")).await.text;
    assert_eq!(text, format!("fetching http://{nobody}/: Connection refused (os error 111)"));
}

pub(super) async fn private_addresses_are_refused_at_every_step() {
    let (server, bench) = (Server::start(), bench_with(|_| {}));
    let cases = [
        ("/to-metadata", "169.254.169.254 is a link-local address; "),
        ("/to-other-loopback", "127.0.0.2 is a loopback address; "),
        ("/to-file", "web_fetch takes http and https URLs only, not `file`"),
        ("/to-credentials", "a URL with a user name or a password in it is not fetched"),
    ];
    for (path, reason) in cases {
        let outcome = bench.fetch(&server.url(path)).await;
        assert!(outcome.verdict == OutcomeKind::Failed && outcome.text.contains(reason), "{path}: {}", outcome.text);
    }
    let mut settings = ToolSettings::new(std::env::current_exe().unwrap());
    settings.web.allow_private = vec![private("127.0.0.0/8")];
    settings.permissions = serde_json::from_value(json!({"deny": ["fetch(127.0.0.2)"]})).unwrap();
    let ruled = Bench { registry: Arc::new(Registry::new(settings)), ..Bench::new() };
    let text = ruled.fetch(&server.url("/to-other-loopback")).await.text;
    assert!(text.ends_with("a rule of the user's configuration forbids fetching from 127.0.0.2"), "{text}");
    let strict = bench_with(|web| web.allow_private.clear());
    let refused = plan(&strict.registry, &strict.site, "web_fetch", json!({"url": server.url("/page")})).await;
    assert!(refused.err().unwrap().reason.starts_with("127.0.0.1 is a loopback address; "));
    // Only the name was allowed, and only the name works.
    let by_name = bench_with(|web| web.allow_private = vec![private("localhost")]);
    let url = format!("http://localhost:{}/json", server.port);
    assert_eq!(by_name.fetch(&url).await.text, "{\"a\": 1}");
    let outcome = bench_with(|web| web.allow_private.clear()).fetch(&url).await;
    assert!(outcome.text.starts_with("localhost (") && outcome.text.contains(") is a loopback address; "));
}

pub(super) async fn redirects_in_a_circle_end() {
    let (server, bench) = (Server::start(), bench_with(|_| {}));
    let outcome = bench.fetch(&server.url("/loop")).await;
    assert_eq!(outcome.verdict, OutcomeKind::Failed);
    assert_eq!(outcome.text, format!("more than 5 redirects; the last one led to {}", server.url("/loop")));
}

pub(super) async fn large_pages_are_cut_and_endless_ones_end() {
    let server = Server::start();
    let bench = bench_with(|web| web.output_limit = 100);
    let text = bench.fetch(&server.url("/large")).await.text;
    assert_eq!(text, format!("{}\n[cut here: 100 bytes of 9.8 KB]", "0123456789".repeat(10)));
    let bench = bench_with(|web| web.read_limit = 5000);
    let outcome = bench.fetch(&server.url("/endless")).await;
    assert!(outcome.text.ends_with("xxx\n[only the first 4.9 KB of the page were read]"), "{}", outcome.text);
    assert_eq!((&outcome.raw["truncated"], &outcome.raw["bytes"]), (&json!(true), &json!(5000)));
    assert_eq!(until(|| server.left.try_recv().ok()).await, "/endless");
}

pub(super) async fn a_slow_page_times_out() {
    let server = Server::start();
    let bench = bench_with(|web| web.timeout = Duration::from_secs(2));
    let text = bench.fetch(&server.url("/slow")).await.text;
    assert_eq!(text, format!("fetching {}: timed out after 2 seconds", server.url("/slow")));
    assert_eq!(until(|| server.left.try_recv().ok()).await, "/slow");
}

pub(super) async fn cancelling_drops_the_request() {
    let (server, bench) = (Server::start(), bench_with(|_| {}));
    let job = plan(&bench.registry, &bench.site, "web_fetch", json!({"url": server.url("/slow")})).await;
    let host = TestHost::new();
    let running = tokio::spawn(job.unwrap_or_else(|refusal| panic!("{}", refusal.reason)).run(host.clone()));
    // Whether the request is on its way or not yet, it ends.
    tokio::task::yield_now().await;
    host.cancel();
    assert_eq!(running.await.unwrap().verdict, OutcomeKind::Cancelled);
}

pub(super) async fn a_page_that_would_overflow_the_stack_is_shown_as_html() {
    let (server, bench) = (Server::start(), bench_with(|web| web.output_limit = 1000));
    let outcome = bench.fetch(&server.url("/deep")).await;
    assert_eq!(outcome.verdict, OutcomeKind::Completed);
    let start = "[the page could not be turned into Markdown; this is its HTML]\n<b><i><b><i>";
    assert!(outcome.text.starts_with(start), "{}", outcome.text);
}
