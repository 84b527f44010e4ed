//! The device flow against a fake of its two addresses.

use std::time::Duration;

use acpd_models::{DeviceError, DeviceFlow, DevicePoll, Secret};
use serde_json::{Value, json};

use testkit::provider::{Reply, Server};

fn started() -> Value {
    json!({ "device_code": "dev-secret", "user_code": "AB-12", "verification_uri": "https://example.com/device",
        "expires_in": 900, "interval": 0 })
}

/// Builds the flow against a server that starts it and then gives these answers to polls.
fn flow(polls: Vec<Reply>) -> (Server, DeviceFlow) {
    let server = Server::with(move |seen, at| match seen.path.as_str() {
        "/device" => Reply::json(200, &started()),
        _ => polls[(at - 1).min(polls.len() - 1)].clone(),
    });
    let url = |path: &str| format!("{}{path}", server.address);
    let flow = DeviceFlow::new(&url("/device"), &url("/token"), "client & co", "read:user");
    (server, flow)
}

fn error(name: &str) -> Reply {
    Reply::json(200, &json!({ "error": name }))
}

#[tokio::test]
async fn a_flow_is_pending_until_there_is_a_token() {
    let token = Reply::json(200, &json!({ "access_token": "gho_secret", "token_type": "bearer" }));
    let slow = Reply::json(200, &json!({ "error": "slow_down", "interval": 0 }));
    let (server, flow) = flow(vec![error("authorization_pending"), slow, Reply::new(502, &[], ""), token]);
    let grant = flow.start().await.unwrap();
    assert_eq!((grant.verification_uri.as_str(), grant.user_code.as_str()), ("https://example.com/device", "AB-12"));
    assert_eq!((grant.interval, grant.expires_in), (Duration::ZERO, Duration::from_secs(900)));
    assert!(!format!("{grant:?}").contains("dev-secret"));
    assert_eq!(flow.complete(&grant).await, Ok(Secret::new("gho_secret")));
    let seen = server.requests();
    assert_eq!(seen[0].body, "client_id=client+%26+co&scope=read%3Auser");
    assert_eq!(seen[0].header("accept"), "application/json");
    assert!(seen[1].body.contains("device_code=dev-secret"), "{}", seen[1].body);
    assert_eq!(seen.len(), 5);
}

#[tokio::test]
async fn each_answer_to_a_poll_is_understood() {
    for (reply, expected) in [
        (error("authorization_pending"), DevicePoll::Pending),
        (error("slow_down"), DevicePoll::SlowDown(Duration::from_secs(5))),
        (
            Reply::json(200, &json!({ "error": "slow_down", "interval": 9 })),
            DevicePoll::SlowDown(Duration::from_secs(9)),
        ),
        (error("access_denied"), DevicePoll::Denied),
        (Reply::json(400, &json!({ "error": "expired_token" })), DevicePoll::Expired),
    ] {
        let (_server, flow) = flow(vec![reply]);
        let grant = flow.start().await.unwrap();
        assert_eq!(flow.poll(&grant).await, Ok(expected));
    }
}

#[tokio::test]
async fn a_denial_and_an_expired_code_end_the_flow() {
    for (name, expected) in [("access_denied", DeviceError::Denied), ("expired_token", DeviceError::Expired)] {
        let (_server, flow) = flow(vec![error("authorization_pending"), error(name)]);
        let grant = flow.start().await.unwrap();
        assert_eq!(flow.complete(&grant).await, Err(expected));
    }
}

#[tokio::test]
async fn a_failed_login_flow_is_reported_with_the_servers_message() {
    let server = Server::script(vec![Reply::json(404, &json!({ "error": "Not Found" }))]);
    let flow = DeviceFlow::new(&server.address, &server.address, "c", "");
    assert_eq!(flow.start().await.unwrap_err().to_string(), "127.0.0.1 refused the request: Not Found");
    let flow = DeviceFlow::new("ftp://x", "ftp://x", "c", "");
    assert_eq!(flow.start().await.unwrap_err().to_string(), "`ftp://x` is not an http address");
}
