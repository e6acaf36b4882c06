//! A cluster of real processes on this machine: daemon, orchestrator, and agents that run work.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use apportion::api::wire::{JobPage, Schedule};
use apportion::orchestrator::wire::{CampaignDetail, Submitted};
use reqwest::{Client, Method, StatusCode};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// Longer than anything takes on a machine that works.
pub const PATIENCE: Duration = Duration::from_mins(6);

/// Short cycles, a dead node after 3 s of silence, and no slot held back.
pub const CONFIG: &str = r#"
[daemon]
cycle_period = "200ms"
heartbeat_interval = "500ms"

[scheduler]
quantum = "256MB"
publication_period = "200ms"
prediction_fudge = "0s"
# Tasks that take long get as many slots as there are before the first one has ended.
initialization_cap = 64

[[nodepool]]
name = "main"

[[class]]
name = "urgent"
policy = "fair-share"
nodepool = "main"
priority = 1

[[class]]
name = "normal"
policy = "fair-share"
nodepool = "main"
priority = 5
default = true
"#;

/// A process of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Daemon,
    Orchestrator,
    Agent(usize),
}

/// Parameters of a cluster.
pub struct Plan<'a> {
    pub config: &'a str,
    pub agents: usize,
    /// Additional flags of each agent.
    pub agent_flags: &'a [&'a str],
    /// Additional flags of the orchestrator.
    pub head_flags: &'a [&'a str],
    /// Addresses of daemon and orchestrator for an agent that does not use the real addresses.
    pub detours: BTreeMap<usize, [String; 2]>,
    /// Ports of daemon and orchestrator, if a test must know them before the start.
    pub ports: Option<[u16; 2]>,
}

/// The cluster. All of its processes end with it.
pub struct Fleet {
    folder: TempDir,
    program: TempDir,
    pub rm: String,
    pub head: String,
    client: Client,
    commands: BTreeMap<Part, (PathBuf, Vec<String>)>,
    running: BTreeMap<Part, Child>,
}

/// A number that differs from run to run.
pub fn lot() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    u64::from(now.subsec_micros()) * 7 + u64::from(std::process::id())
}

/// A port that no outgoing connection takes while its listener is away.
pub fn port() -> u16 {
    let first = 10_000 + u16::try_from(lot() % 22_000).unwrap();
    let mut ports = (first..32_000).chain(10_000..first);
    ports.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap()
}

impl Fleet {
    /// A cluster of a few slots, with this lease of the slots.
    pub async fn small(agents: usize, lease: &str) -> Fleet {
        let plan = Plan {
            config: CONFIG,
            agents,
            agent_flags: &["--memory", "512MB"],
            head_flags: &["--linger", "1s", "--lease", lease],
            detours: BTreeMap::new(),
            ports: None,
        };
        Fleet::start(&plan).await
    }

    pub async fn start(plan: &Plan<'_>) -> Fleet {
        // In memory, if that is possible: a disk under other load makes leases run out.
        let memory = tempfile::tempdir_in("/dev/shm");
        let folder = memory.or_else(|_| tempfile::tempdir()).unwrap();
        let path = folder.path().to_owned();
        for open in [path.clone(), path.join("work")] {
            fs::create_dir_all(&open).unwrap();
            fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        }
        fs::write(path.join("apportion.toml"), plan.config).unwrap();
        // A long run keeps its program when the program is built again meanwhile.
        let program = env!("CARGO_BIN_EXE_apportion");
        let own = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        fs::hard_link(program, own.path().join("apportion")).unwrap();
        let ports = plan.ports.unwrap_or_else(|| [port(), port()]);
        let listen = ports.map(|port| format!("127.0.0.1:{port}"));
        let [rm, head] = listen.clone().map(|address| format!("http://{address}"));
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let at = |name: &str| path.join(name).to_str().unwrap().to_owned();
        let mut commands = BTreeMap::new();
        let daemon = format!(
            "serve --listen {} --config {} --state {}",
            listen[0],
            at("apportion.toml"),
            at("state.db")
        );
        commands.insert(Part::Daemon, (path.join("daemon.log"), words(&daemon)));
        let line = format!(
            "orchestrator run --rm {rm} --listen {} --state {} --publish-every 200ms",
            listen[1],
            at("orchestrator.db")
        );
        let mut line = words(&line);
        line.extend(plan.head_flags.iter().map(|flag| (*flag).to_owned()));
        commands.insert(Part::Orchestrator, (path.join("orchestrator.log"), line));
        for agent in 1..=plan.agents {
            let direct = [rm.clone(), head.clone()];
            let [rm, head] = plan.detours.get(&agent).unwrap_or(&direct);
            let spool = at(&format!("n{agent}"));
            let line = format!(
                "agent --run --node n{agent} --url {rm} --orchestrator {head} --spool {spool} \
                 --interval 500ms --min-uid 1"
            );
            let mut line = words(&line);
            line.extend(plan.agent_flags.iter().map(|flag| (*flag).to_owned()));
            commands.insert(Part::Agent(agent), (path.join(format!("n{agent}.log")), line));
        }
        let client = Client::builder().no_proxy().timeout(Duration::from_secs(20)).build().unwrap();
        let running = BTreeMap::new();
        let mut fleet = Fleet { folder, program: own, rm, head, client, commands, running };
        fleet.revive();
        fleet
            .until("ready", async |fleet| fleet.ask(Method::GET, "/v1/campaigns", None).await.ok())
            .await;
        fleet
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The folder that tasks work in.
    pub fn work(&self) -> PathBuf {
        self.folder().join("work")
    }

    /// The lines of a file that tasks write.
    pub fn lines(&self, name: &str) -> Vec<String> {
        let text = fs::read_to_string(self.work().join(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Starts each process that does not run.
    pub fn revive(&mut self) {
        for (part, (log, words)) in &self.commands {
            let runs =
                self.running.get_mut(part).is_some_and(|it| it.try_wait().unwrap().is_none());
            if runs {
                continue;
            }
            let log = OpenOptions::new().create(true).append(true).open(log).unwrap();
            let mut command = Command::new(self.program.path().join("apportion"));
            let command = command.args(words).stdin(Stdio::null()).stdout(Stdio::null());
            self.running.insert(*part, command.stderr(log).spawn().unwrap());
        }
    }

    pub fn pid(&self, part: Part) -> u32 {
        self.running[&part].id()
    }

    /// `kill -9`, and waits until it is gone.
    pub fn kill(&mut self, part: Part) {
        let process = self.running.get_mut(&part).unwrap();
        // The process may have ended already.
        let _ = process.kill();
        process.wait().unwrap();
    }

    /// Asks the orchestrator. `Err`: it does not answer.
    pub async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<(StatusCode, Value), reqwest::Error> {
        let request = self.client.request(method, format!("{}{path}", self.head));
        let request = match body {
            Some(body) => request.json(&body),
            None => request,
        };
        let answer = request.send().await?;
        let status = answer.status();
        Ok((status, serde_json::from_slice(&answer.bytes().await?).unwrap_or_default()))
    }

    /// Submits a campaign of the user that runs work here.
    pub async fn submit(&self, mut body: Value) -> u64 {
        let fields = body.as_object_mut().unwrap();
        fields.entry("user").or_insert_with(|| user().into());
        fields.entry("memory").or_insert_with(|| "256MB".into());
        fields.entry("cwd").or_insert_with(|| self.work().to_str().unwrap().into());
        let (status, answer) = self.ask(Method::POST, "/v1/campaigns", Some(body)).await.unwrap();
        assert_eq!(status, StatusCode::CREATED, "{answer}");
        serde_json::from_value::<Submitted>(answer).unwrap().id
    }

    /// Asks for another state of a campaign.
    pub async fn change(&self, id: u64, body: Value) {
        let path = format!("/v1/campaigns/{id}/state");
        let (status, answer) = self.ask(Method::PUT, &path, Some(body)).await.unwrap();
        assert_eq!(status, StatusCode::NO_CONTENT, "{answer}");
    }

    /// A campaign, if the orchestrator answers.
    pub async fn campaign(&self, id: u64) -> Option<CampaignDetail> {
        let (_, answer) = self.ask(Method::GET, &format!("/v1/campaigns/{id}"), None).await.ok()?;
        serde_json::from_value(answer).ok()
    }

    /// The schedule, if the daemon answers.
    pub async fn schedule(&self) -> Option<Schedule> {
        let answer = self.client.get(format!("{}/v1/schedule", self.rm)).send().await.ok()?;
        answer.json().await.ok()
    }

    /// All jobs with their shares, if the daemon answers.
    pub async fn jobs(&self) -> Option<JobPage> {
        let answer = self.client.get(format!("{}/v1/jobs", self.rm)).send().await.ok()?;
        answer.json().await.ok()
    }

    /// Waits until `find` finds something.
    pub async fn until<T>(&self, what: &str, find: impl AsyncFn(&Fleet) -> Option<T>) -> T {
        let since = Instant::now();
        loop {
            if let Some(found) = find(self).await {
                return found;
            }
            assert!(since.elapsed() < PATIENCE, "never: {what}; {}", self.logs());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until a campaign is in a state.
    pub async fn until_state(&self, id: u64, state: &str) -> CampaignDetail {
        let find = async |fleet: &Fleet| {
            let detail = fleet.campaign(id).await?;
            (detail.campaign.state == state).then_some(detail)
        };
        self.until(&format!("campaign {id} is {state}"), find).await
    }

    /// Processes of slots, by their name.
    pub fn slots(&self) -> Vec<(String, u32)> {
        let is_slot = |pid: &u32| {
            let number = i32::try_from(*pid).unwrap();
            // A child that is not yet another program looks like its slot, which leads a session.
            if apportion::slot::session(number) != Some(number) {
                return false;
            }
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let mut words = words.split(|byte| *byte == 0).skip(1);
            words.next() == Some(b"slot") && !words.any(|word| word == b"--report")
        };
        marked(self.folder()).into_iter().filter(|(_, pid)| is_slot(pid)).collect()
    }

    /// The end of every log.
    pub fn logs(&self) -> String {
        let mut parts = Vec::new();
        for (log, _) in self.commands.values() {
            let text = fs::read_to_string(log).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            let end = lines[lines.len().saturating_sub(15)..].join("\n");
            parts.push(format!("\n== {}\n{end}", log.display()));
        }
        parts.concat()
    }

    /// Keeps the folder, to investigate a failure.
    pub fn keep(&mut self) {
        self.folder.disable_cleanup(true);
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for process in self.running.values_mut() {
            let _ = process.kill();
            let _ = process.wait();
        }
        // Their slots and tasks.
        for _ in 0..20 {
            let left = marked(self.folder.path());
            if left.is_empty() {
                return;
            }
            for (_, pid) in left {
                signal(pid, Signal::KILL);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Sends a signal. The process may have ended.
pub fn signal(pid: u32, signal: Signal) {
    let _ = kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal);
}

/// Processes with the mark of a slot whose spool is in `folder`, with the name of the slot.
pub fn marked(folder: &Path) -> Vec<(String, u32)> {
    let place = folder.to_str().unwrap().as_bytes();
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let own = |pid: u32| {
        let slot = apportion::slot::mark(i32::try_from(pid).ok()?).slot?;
        let has = |file: &str| {
            let text = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            text.windows(place.len()).any(|part| part == place)
        };
        (has("environ") || has("cmdline")).then_some((slot, pid))
    };
    pids.filter_map(own).collect()
}

/// A user that can run work here: another user, if this process may start its work.
pub fn user() -> String {
    let name = Command::new("id").arg("-un").output().unwrap();
    let own = String::from_utf8(name.stdout).unwrap().trim().to_owned();
    if own == "root" { "nobody".to_owned() } else { own }
}

/// All shares that a schedule names.
pub fn shares(schedule: &Schedule) -> BTreeSet<u64> {
    let jobs = schedule.jobs.iter();
    jobs.flat_map(|job| {
        let there = job.shares.iter().chain(&job.added).map(|share| share.share);
        there.chain(job.removed.iter().map(|share| share.share))
    })
    .collect()
}
