//! GitHub's device flow (RFC 8628): requests a code, lets the user type it in a browser, and polls
//! until there is a token.
//!
//! This is only a client of two addresses. The caller decides how to show the code, where to store
//! the token and how long to wait.

use std::time::Duration;

use reqwest::Url;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use crate::exchange::{causes, read_some};
use crate::http::Http;
use crate::secret::Secret;

const DEADLINE: Duration = Duration::from_secs(30);

/// The increase of the polling interval after a `slow_down` error, as RFC 8628 defines it.
const SLOW_DOWN_INCREASE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub struct DeviceFlow {
    pub device_url: String,
    pub token_url: String,
    pub client_id: String,
    pub scope: String,
    http: Http,
}

/// A flow that has begun. The user opens `verification_uri` and types `user_code`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceGrant {
    pub verification_uri: String,
    pub user_code: String,
    /// The time between two polls.
    pub interval: Duration,
    pub expires_in: Duration,
    device_code: Secret,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DevicePoll {
    Token(Secret),
    Pending,
    /// The new minimum interval between polls.
    SlowDown(Duration),
    Denied,
    Expired,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    #[error("`{0}` is not an http address")]
    Address(String),
    #[error("cannot reach {host}: {reason}")]
    Unreachable { host: String, reason: String },
    #[error("{host} refused the request: {reason}")]
    Refused { host: String, reason: String },
    #[error("the request was denied")]
    Denied,
    #[error("the code has expired")]
    Expired,
}

impl DeviceFlow {
    pub fn new(device_url: &str, token_url: &str, client_id: &str, scope: &str) -> Self {
        Self {
            device_url: device_url.to_owned(),
            token_url: token_url.to_owned(),
            client_id: client_id.to_owned(),
            scope: scope.to_owned(),
            http: Http::default(),
        }
    }

    /// Creates a flow with GitHub's own addresses.
    pub fn github(client_id: &str, scope: &str) -> Self {
        const DEVICE: &str = "https://github.com/login/device/code";
        const TOKEN: &str = "https://github.com/login/oauth/access_token";
        Self::new(DEVICE, TOKEN, client_id, scope)
    }

    /// Starts the flow and returns the code for the user.
    ///
    /// # Errors
    ///
    /// If the address cannot be reached or the answer is not a grant.
    pub async fn start(&self) -> Result<DeviceGrant, DeviceError> {
        #[derive(Deserialize)]
        struct Started {
            device_code: Secret,
            user_code: String,
            verification_uri: String,
            expires_in: Option<u64>,
            interval: Option<u64>,
        }
        let fields = [("client_id", self.client_id.as_str()), ("scope", self.scope.as_str())];
        let (host, answer) = self.post(&self.device_url, &fields).await?;
        let reason = wording(&answer);
        let started: Started = serde_json::from_value(answer).map_err(|_| DeviceError::Refused { host, reason })?;
        Ok(DeviceGrant {
            verification_uri: started.verification_uri,
            user_code: started.user_code,
            interval: Duration::from_secs(started.interval.unwrap_or(5)),
            expires_in: Duration::from_secs(started.expires_in.unwrap_or(900)),
            device_code: started.device_code,
        })
    }

    /// Asks once whether the user has decided.
    ///
    /// # Errors
    ///
    /// If the address cannot be reached or the answer is not part of the flow.
    pub async fn poll(&self, grant: &DeviceGrant) -> Result<DevicePoll, DeviceError> {
        let fields = [
            ("client_id", self.client_id.as_str()),
            ("device_code", grant.device_code.expose()),
            ("grant_type", "urn:ietf:params:oauth:grant-type:device_code"),
        ];
        let (host, answer) = self.post(&self.token_url, &fields).await?;
        if let Some(token) = answer["access_token"].as_str().filter(|token| !token.is_empty()) {
            return Ok(DevicePoll::Token(Secret::new(token)));
        }
        match answer["error"].as_str() {
            Some("authorization_pending") => Ok(DevicePoll::Pending),
            Some("slow_down") => {
                let asked = answer["interval"].as_u64().map(Duration::from_secs);
                Ok(DevicePoll::SlowDown(asked.unwrap_or(grant.interval + SLOW_DOWN_INCREASE)))
            }
            Some("access_denied") => Ok(DevicePoll::Denied),
            Some("expired_token" | "token_expired") => Ok(DevicePoll::Expired),
            _ => Err(DeviceError::Refused { host, reason: wording(&answer) }),
        }
    }

    /// Polls until the user has decided or the code has expired. A poll that fails to get through
    /// is tried again.
    ///
    /// # Errors
    ///
    /// If the user denies it, if the code expires, or if the answer is not part of the flow.
    pub async fn complete(&self, grant: &DeviceGrant) -> Result<Secret, DeviceError> {
        let end = Instant::now() + grant.expires_in;
        let mut interval = grant.interval;
        loop {
            tokio::time::sleep(interval).await;
            match self.poll(grant).await {
                Ok(DevicePoll::Token(token)) => return Ok(token),
                Ok(DevicePoll::Pending) | Err(DeviceError::Unreachable { .. }) => {}
                Ok(DevicePoll::SlowDown(slower)) => interval = slower,
                Ok(DevicePoll::Denied) => return Err(DeviceError::Denied),
                Ok(DevicePoll::Expired) => return Err(DeviceError::Expired),
                Err(error) => return Err(error),
            }
            if Instant::now() >= end {
                return Err(DeviceError::Expired);
            }
        }
    }

    /// Sends a form and reads JSON. Errors of the flow come with success and error statuses alike.
    async fn post(&self, address: &str, fields: &[(&str, &str)]) -> Result<(String, Value), DeviceError> {
        let url = Url::parse(address).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let url = url.ok_or_else(|| DeviceError::Address(address.to_owned()))?;
        let host = url.host_str().unwrap_or_default().to_owned();
        let unreachable = |reason: String| DeviceError::Unreachable { host: host.clone(), reason };
        let client = self.http.client(&url).await.map_err(unreachable)?;
        let form = reqwest::Url::parse_with_params("http://form", fields).ok();
        let form = form.as_ref().and_then(Url::query).unwrap_or_default().to_owned();
        let request = client
            .post(url)
            .header("accept", "application/json")
            .header("content-type", "application/x-www-form-urlencoded")
            .body(form);
        let response = tokio::time::timeout(DEADLINE, request.send()).await;
        let response = response.map_err(|_| unreachable("no answer in time".to_owned()))?;
        let response = response.map_err(|error| unreachable(causes(error)))?;
        let status = response.status();
        if status.is_server_error() {
            return Err(unreachable(status.to_string()));
        }
        let answer = serde_json::from_str(&read_some(response).await);
        let answer = answer.map_err(|_| DeviceError::Refused { host: host.clone(), reason: status.to_string() })?;
        Ok((host, answer))
    }
}

/// Returns the error text of an answer. The other fields may hold secrets.
fn wording(answer: &Value) -> String {
    let said = answer["error_description"].as_str().or(answer["error"].as_str()).or(answer["message"].as_str());
    said.unwrap_or("the answer is not of the device flow").to_owned()
}
