//! Answers `GET /healthz` and `GET /metrics` with the state of the daemon, for programs that
//! monitor it.

use std::time::Duration;

use acpd_actors::{Overview, Runtime};
use actix_web::{HttpResponse, web};
use domain::Millis;
use domain::history::StoreStatus;
use serde_json::json;

use crate::MetricsText;
use crate::client_registry::ClientRegistry;
use crate::refusal::HttpRefusal;

/// How long the daemon may take to describe itself before it counts as unhealthy.
const DEADLINE: Duration = Duration::from_secs(2);

/// The media type of the metrics.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(crate) async fn healthz(clients: web::Data<ClientRegistry>) -> Result<HttpResponse, HttpRefusal> {
    let runtime = clients.runtime();
    let overview = describe(runtime).await?;
    let uptime = Millis::now().0.saturating_sub(runtime.started().0) / 1000;
    let is_healthy = !matches!(overview.store, StoreStatus::Failing { .. });
    let mut response = if is_healthy { HttpResponse::Ok() } else { HttpResponse::ServiceUnavailable() };
    Ok(response.json(json!({
        "status": if is_healthy { "ok" } else { "failing" },
        "version": env!("CARGO_PKG_VERSION"),
        "uptimeSeconds": uptime,
        "store": overview.store,
    })))
}

pub(crate) async fn metrics(
    clients: web::Data<ClientRegistry>,
    metrics: web::Data<MetricsText>,
) -> Result<HttpResponse, HttpRefusal> {
    let overview = describe(clients.runtime()).await?;
    let text = metrics(&overview, clients.unread()).map_err(|_| HttpRefusal::NoAnswer)?;
    Ok(HttpResponse::Ok().content_type(OPEN_METRICS).body(text))
}

async fn describe(runtime: &Runtime) -> Result<Overview, HttpRefusal> {
    tokio::time::timeout(DEADLINE, runtime.describe()).await.ok().flatten().ok_or(HttpRefusal::NoAnswer)
}
