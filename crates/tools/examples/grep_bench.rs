//! Temporary.
use std::sync::Arc;
use std::time::Instant;
use acpd_tools::{Registry, Settings};
use domain::tool::{Desk, ToolRequest, Toolbox};
use domain::*;
struct D;
impl Desk for D {
    fn progress(&self, _: Vec<ToolContent>) {}
    fn cancelled(&self) -> futures_util::future::BoxFuture<'static, ()> { Box::pin(std::future::pending()) }
}
fn main() {
    let mut args = std::env::args().skip(1);
    let folder = args.next().unwrap();
    let input: serde_json::Value = serde_json::from_str(&args.next().unwrap()).unwrap();
    let rounds: usize = args.next().map_or(5, |n| n.parse().unwrap());
    let registry = Registry::new(Settings::new("/bin/false"));
    let site = Arc::new(Site { session: SessionId::new(), turn: TurnId::new(), cwd: folder.into(), extra_roots: vec![], mode: Mode::Full, environment: Default::default(), seen: Default::default(), editor: None });
    let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut best = f64::MAX;
    for _ in 0..rounds {
        let t = Instant::now();
        let out = rt.block_on(async {
            let Ok(job) = registry.plan(ToolRequest { tool: "grep".into(), input: input.clone() }, site.clone()).await else { panic!() };
            job.run(Arc::new(D)).await
        });
        best = best.min(t.elapsed().as_secs_f64());
        if std::env::var("SHOW").is_ok() { println!("{}", out.text); }
        eprintln!("{} {:.3}", out.raw, t.elapsed().as_secs_f64());
    }
    println!("best {best:.3}");
}
