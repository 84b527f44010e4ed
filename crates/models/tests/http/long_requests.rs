//! Requests that are too long to be encoded before they are sent.

use std::sync::Arc;

use acpd_models::ProviderKind;
use domain::conversation::{CallResult, Message, Part};
use domain::model::{Model, ModelRequest};
use domain::turn::FailureKind;
use domain::{Content, MessageId, Payload};
use futures_util::{FutureExt, StreamExt};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};

use crate::support::{ALL, ask_with, config, dialect, model, model_of, request, user};
use testkit::answers::ModelAnswer;
use testkit::provider::{RecordedRequest, Reply, Server};
use testkit::validation::PICTURE;

/// A line with every kind of escape, and characters of two to four bytes.
const LINE: &str = "let text = \"C:\\\\dir\\n\";\t// ä€😀 \u{1}\u{8}\u{c}\u{1f}\u{7f}\r\n";

/// Builds a conversation of about 800 KB with every kind of text.
fn long_request() -> ModelRequest {
    let long = LINE.repeat(4_000);
    let call =
        Part::Call { id: "c".into(), tool: "read_file".to_owned(), input: json!({ "path": long }), origin: None };
    let result = CallResult { call: "c".into(), text: long.clone(), images: vec![], failed: false };
    let parts = vec![Part::Text(long.clone()), call];
    request(vec![
        user(&long),
        Arc::new(Message::Assistant { id: MessageId::new(), parts }),
        Arc::new(Message::Results { results: vec![result] }),
        user("go on"),
    ])
}

fn answer(kind: ProviderKind) -> Reply {
    Reply::stream(&[&ModelAnswer::text("hi").sse(dialect(kind))])
}

/// Checks that a request has exactly the bytes that `serde_json` writes, and names their number.
fn check_body(request: &RecordedRequest) {
    assert_eq!(request.header("content-length"), request.body.len().to_string());
    assert_eq!(request.header("transfer-encoding"), "");
    let expected = request.json().to_string();
    assert!(request.body == expected, "serde_json writes other bytes");
}

#[tokio::test]
async fn a_long_request_arrives_whole_in_every_dialect_and_again_with_each_try() {
    for kind in ALL {
        let busy = Reply::json(429, &json!({ "error": { "message": "slow down" } }));
        let server = Server::script(vec![busy, answer(kind)]);
        let (_, error) = ask_with(&*model(kind, &server), long_request()).await;
        assert_eq!(error, None, "{kind:?}");
        let [first, second] = &server.requests()[..] else { panic!("{kind:?}: there are two tries") };
        check_body(first);
        assert!(first.body.len() > 800_000, "{kind:?}: {}", first.body.len());
        assert!(first.body == second.body, "{kind:?}: the second try differs");
        assert_eq!(second.header("content-length"), first.header("content-length"), "{kind:?}");
    }
}

#[tokio::test]
async fn a_long_request_is_changed_after_a_refusal_and_so_are_later_ones() {
    for kind in ALL {
        let server = Server::with(move |seen, _| match seen.body.contains(PICTURE) {
            true => Reply::json(400, &json!({ "error": { "message": "Image input is not supported by this model" } })),
            false => answer(kind),
        });
        let mut config = config(kind, &server.address);
        let facts = acpd_models::ModelConfig { id: "m".to_owned(), images: Some(true), ..Default::default() };
        config.providers.get_mut("fake").unwrap().models = vec![facts];
        let model = model_of(&config, "m");
        for requests in [2, 3] {
            let mut request = long_request();
            let picture = Payload::Image { data: PICTURE.to_owned(), mime: "image/png".to_owned(), uri: None };
            request
                .messages
                .push(Arc::new(Message::User { id: MessageId::new(), content: vec![Content::from(picture)] }));
            let (_, error) = ask_with(&*model, request).await;
            assert_eq!((error, server.requests().len()), (None, requests), "{kind:?}");
        }
        let seen = server.requests();
        seen.iter().for_each(check_body);
        assert!(seen.iter().all(|request| request.body.len() > 800_000), "{kind:?}: all have the conversation");
    }
}

/// More than the kernel takes from us while the server does not read.
const BYTES: usize = 16 << 20;

/// A server that does not read, and a model there.
fn unread() -> (TcpListener, Arc<dyn Model>) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4 << 10).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let model = model_of(&config(ProviderKind::OpenAi, &format!("http://{}", listener.local_addr().unwrap())), "m");
    (listener, model)
}

#[tokio::test]
async fn a_refusal_before_the_end_of_a_long_request_is_understood() {
    const REFUSAL: &str = "HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let (listener, model) = unread();
    let refuse = async {
        let (mut connection, _) = listener.accept().await.unwrap();
        connection.read_exact(&mut [0; 64]).await.unwrap();
        connection.write_all(REFUSAL.as_bytes()).await.unwrap();
        // It stays open, so that the request cannot be taken for one that was interrupted.
        connection
    };
    let ((_, error), _connection) = tokio::join!(ask_with(&*model, request(vec![user(&"x".repeat(BYTES))])), refuse);
    assert_eq!(error.as_ref().map(|error| error.kind), Some(FailureKind::Overflow), "{error:?}");
    assert!(listener.accept().now_or_never().is_none(), "it is not sent again");
}

/// The encoder waits for a server that does not read, and ends with the request.
#[tokio::test]
async fn a_long_request_ends_with_its_stream_while_the_server_does_not_read() {
    let (listener, model) = unread();
    let mut stream = model.respond(request(vec![user(&"x".repeat(BYTES))]));
    let (mut connection, mut head) = (None, [0; 64]);
    tokio::select! {
        answer = stream.next() => panic!("there is no answer: {answer:?}"),
        () = async {
            let (mut accepted, _) = listener.accept().await.unwrap();
            accepted.read_exact(&mut head).await.unwrap();
            connection = Some(accepted);
        } => {}
    }
    drop(stream);
    let mut rest = Vec::new();
    // The connection ends, with an error or without.
    let _ = connection.unwrap().read_to_end(&mut rest).await;
    assert!(head.starts_with(b"POST ") && rest.len() < BYTES, "{} bytes arrived", rest.len());
}
