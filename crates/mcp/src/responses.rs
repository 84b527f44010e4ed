//! Reads HTTP responses of servers: bodies within a limit, and refusals as errors.

use domain::text::cut;
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER, WWW_AUTHENTICATE};
use reqwest::{Response, StatusCode};
use rmcp::ErrorData;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, StreamableHttpError, StreamableHttpPostResponse,
};

use crate::hidden::SentSecrets;
use crate::login::Demand;
use crate::refusals::Refusal;

/// The most bytes that are read of an error response.
pub(crate) const LARGEST_REFUSAL: usize = 64 << 10;

pub(crate) const JSON: &str = "application/json";

pub(crate) type Failure = StreamableHttpError<reqwest::Error>;

/// Returns how a server refused a request for want of a login.
pub(crate) fn refusal_of(error: &Failure) -> Option<Refusal> {
    match error {
        StreamableHttpError::AuthRequired(error) => Some(Refusal::Login(Demand::login(&error.www_authenticate_header))),
        StreamableHttpError::InsufficientScope(error) => Some(
            Demand::more_rights(&error.www_authenticate_header)
                .map_or_else(|| Refusal::Status("HTTP 403 Forbidden".to_owned()), Refusal::Login),
        ),
        _ => None,
    }
}

pub(crate) fn content_type(headers: &HeaderMap) -> Option<String> {
    headers.get(CONTENT_TYPE).map(|kind| String::from_utf8_lossy(kind.as_bytes()).into_owned())
}

/// Returns an error if the server wants another token, or any.
pub(crate) fn authorized(status: StatusCode, headers: &HeaderMap) -> Result<(), Failure> {
    let challenge = headers.get(WWW_AUTHENTICATE);
    let challenge = challenge.map(|challenge| String::from_utf8_lossy(challenge.as_bytes()).into_owned());
    match (status, challenge) {
        (StatusCode::UNAUTHORIZED, challenge) => {
            Err(StreamableHttpError::AuthRequired(AuthRequiredError::new(challenge.unwrap_or_default())))
        }
        (StatusCode::FORBIDDEN, Some(challenge)) => {
            Err(StreamableHttpError::InsufficientScope(InsufficientScopeError::new(challenge, None)))
        }
        _ => Ok(()),
    }
}

/// Turns an error response into an error: the JSON-RPC error if there is one, and otherwise the
/// status.
pub(crate) async fn refusal(
    response: Response,
    message: &ClientJsonRpcMessage,
    in_session: bool,
    sent: &SentSecrets,
) -> Result<StreamableHttpPostResponse, Failure> {
    let status = response.status();
    let is_json = content_type(response.headers()).is_some_and(|kind| kind.starts_with(JSON));
    let by_status = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
    let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let of_status = || StreamableHttpError::HttpStatus(HttpStatusError::new(status.as_u16(), retry_after.clone()));
    if status == StatusCode::TOO_MANY_REQUESTS || (by_status && !is_json) {
        return Err(of_status());
    }
    let body = body(response, LARGEST_REFUSAL).await.ok().flatten().unwrap_or_default();
    let error = match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
        Ok(JsonRpcMessage::Error(mut error)) => {
            sent.scrub_error(&mut error.error);
            Some(error)
        }
        Ok(_) | Err(_) => None,
    };
    let text = cut(&sent.scrub(&String::from_utf8_lossy(&body)), 300);
    let unauthorized = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    // A server of an older version refuses the discovery request, and the library then uses the
    // older handshake. Such a refusal does not always name the request.
    if let JsonRpcMessage::Request(request) = message
        && matches!(request.request, ClientRequest::DiscoverRequest(_))
        && !in_session
        && status.is_client_error()
        && !unauthorized
    {
        let why = || ErrorData::invalid_request(format!("refused with HTTP {status}: {text}"), None);
        let error = error.map_or_else(why, |error| error.error);
        let answer = ServerJsonRpcMessage::error(error, Some(request.id.clone()));
        return Ok(StreamableHttpPostResponse::Json(answer, None));
    }
    match error {
        Some(error) if is_json && !unauthorized => {
            Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::Error(error), None))
        }
        _ if by_status => Err(of_status()),
        _ => Err(StreamableHttpError::UnexpectedServerResponse(format!("HTTP {status}: {text}").into())),
    }
}

/// Reads a body. Returns None if it is larger than `largest`.
pub(crate) async fn body(mut response: Response, largest: usize) -> Result<Option<Vec<u8>>, reqwest::Error> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > largest {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Some(body))
}
