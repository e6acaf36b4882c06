//! The orchestrator in the daemon's process: its routes stand beside the daemon's, behind the same
//! gate. It reaches the daemon through those routes, as an orchestrator elsewhere does over the
//! network.

use axum::{Extension, Router};
use jiff::tz::TimeZone;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::config::{GridSettings, OrchestratorSettings};
use crate::daemon::Beside;
use crate::dashboard::Site;
use crate::orchestrator::house::HouseRules;
use crate::orchestrator::rm::Rm;
use crate::orchestrator::run::{OrchestratorError, OrchestratorOptions, Prepared};
use crate::orchestrator::serve;

/// Returns the routes to serve beside the daemon's own: none, unless the settings enable the
/// orchestrator. Hours of campaigns are in `zone`. The orchestrator runs until `stop`. If it ends
/// earlier, the daemon continues.
pub fn beside(
    settings: &OrchestratorSettings,
    grid: &GridSettings,
    zone: &TimeZone,
    stop: &CancellationToken,
) -> Beside {
    if !settings.enabled {
        return Beside::default();
    }
    let options = OrchestratorOptions {
        state: settings.state.clone(),
        publish_every: settings.publish_every,
        lease: settings.lease,
        linger: settings.linger,
        retention: settings.retention,
        grid: grid.clone(),
        house: HouseRules {
            test_class: settings.test_class.clone(),
            rules: settings.rules.clone(),
            admission: settings.admission.clone(),
            notify: settings.notify.clone(),
            zone: zone.clone(),
        },
    };
    let prepared = Prepared::new(options, None);
    let pages = serve::pages(prepared.state()).layer(Extension(Site::WITH_CAMPAIGNS));
    let routes = serve::routes(prepared.state()).merge(pages);
    let (whole, daemon) = oneshot::channel();
    let stop = stop.child_token();
    tokio::spawn(async move {
        if let Err(error) = run(prepared, daemon, stop).await {
            let error = anyhow::Error::from(error);
            tracing::error!(
                error = format!("{error:#}"),
                "the orchestrator has stopped; the scheduler goes on. Restart the daemon once the cause is gone"
            );
        }
    });
    Beside { routes, has_campaigns: true, whole: Some(whole) }
}

async fn run(
    prepared: Prepared,
    daemon: oneshot::Receiver<Router>,
    stop: CancellationToken,
) -> Result<(), OrchestratorError> {
    // The daemon did not come to serve; it says why.
    let Ok(daemon) = daemon.await else { return Ok(()) };
    prepared.start(Rm::inside(daemon), stop).await?.ended().await
}
