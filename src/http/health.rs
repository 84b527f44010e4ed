//! How the daemon is, for programs that watch it.

use std::time::Duration;

use acpd_actors::Runtime;
use actix_web::{HttpResponse, web};
use domain::Millis;
use domain::history::StoreStatus;
use serde_json::json;

use super::clients::Clients;
use super::refusal::Refusal;
use crate::metrics::{CONTENT_TYPE, Metrics};

/// How long the daemon may take to describe itself before it counts as ill.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) async fn healthz(clients: web::Data<Clients>) -> Result<HttpResponse, Refusal> {
    let runtime = clients.runtime();
    let overview = look(runtime).await?;
    let uptime = Millis::now().0.saturating_sub(runtime.started().0) / 1000;
    let is_well = !matches!(overview.store, StoreStatus::Failing { .. });
    let mut response = if is_well { HttpResponse::Ok() } else { HttpResponse::ServiceUnavailable() };
    Ok(response.json(json!({
        "status": if is_well { "ok" } else { "failing" },
        "version": env!("CARGO_PKG_VERSION"),
        "uptimeSeconds": uptime,
        "store": overview.store,
    })))
}

pub(super) async fn metrics(clients: web::Data<Clients>, metrics: web::Data<Metrics>) -> Result<HttpResponse, Refusal> {
    let overview = look(clients.runtime()).await?;
    let text = metrics.text(&overview, clients.unread()).map_err(|_| Refusal::NoAnswer)?;
    Ok(HttpResponse::Ok().content_type(CONTENT_TYPE).body(text))
}

async fn look(runtime: &Runtime) -> Result<acpd_actors::Overview, Refusal> {
    tokio::time::timeout(PATIENCE, runtime.describe()).await.ok().flatten().ok_or(Refusal::NoAnswer)
}
