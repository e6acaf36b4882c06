//! Requests to the daemon: counters by route from its metrics, and the clients that ask most.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::figures::millis;
use super::table::Column::{Left, Right};
use super::table::headed;
use super::text::TextStyle;
use crate::api::wire::{ClientCounts, ClientList};

/// Routes, and also clients, in the short form: enough to see the busiest.
const SHOWN: usize = 8;

/// Requests of a route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Requests {
    /// Route as the API's document writes it; `none` for an unknown route.
    pub route: String,
    /// The request's method.
    pub method: String,
    /// Number of answered requests.
    pub count: u64,
    /// Number of refused requests, with a status of 400 to 499.
    pub refused: u64,
    /// Number of failed requests, with a status of 500 or more.
    pub failed: u64,
    /// Mean time of a request in microseconds, over all methods. Absent if the route may wait for
    /// news.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_us: Option<u64>,
}

impl Requests {
    /// Returns the requests in `metrics`, the most frequent route first.
    pub fn of(metrics: &str) -> Vec<Requests> {
        let mut counts: BTreeMap<(String, String), [u64; 3]> = BTreeMap::new();
        let mut times: BTreeMap<String, (Option<Duration>, u32)> = BTreeMap::new();
        for (name, labels, value) in metrics.lines().filter_map(sample) {
            let label = |wanted: &str| label(labels, wanted).unwrap_or_default().to_owned();
            match name {
                "apportion_requests_total" => {
                    let number = value.parse().unwrap_or(0);
                    let counts = counts.entry((label("route"), label("method"))).or_default();
                    let kind = match label("status").as_bytes().first() {
                        Some(b'4') => 1,
                        Some(b'5') => 2,
                        _ => 0,
                    };
                    counts[kind] += number;
                }
                "apportion_request_duration_seconds_sum" => {
                    let sum = value.parse().ok().and_then(|s| Duration::try_from_secs_f64(s).ok());
                    times.entry(label("route")).or_default().0 = sum;
                }
                "apportion_request_duration_seconds_count" => {
                    times.entry(label("route")).or_default().1 = value.parse().unwrap_or(0);
                }
                _ => {}
            }
        }
        let of_one = |((route, method), [answered, refused, failed]): (_, [u64; 3])| {
            let mean = times.get(&route).and_then(|(sum, count)| sum.as_ref()?.checked_div(*count));
            let mean_us = mean.and_then(|mean| u64::try_from(mean.as_micros()).ok());
            let count = answered + refused + failed;
            Requests { route, method, count, refused, failed, mean_us }
        };
        let mut requests: Vec<Requests> = counts.into_iter().map(of_one).collect();
        requests.sort_by_key(|one| std::cmp::Reverse(one.count));
        requests
    }
}

/// A line's name, labels and value.
fn sample(line: &str) -> Option<(&str, &str, &str)> {
    let (name, rest) = line.split_once('{')?;
    let (labels, value) = rest.rsplit_once("} ")?;
    Some((name, labels, value))
}

/// Returns the value of a label. Routes, methods and statuses have no characters that would be
/// escaped.
fn label<'a>(labels: &'a str, wanted: &str) -> Option<&'a str> {
    labels.split("\",").find_map(|label| {
        let (name, value) = label.split_once("=\"")?;
        (name == wanted).then(|| value.trim_end_matches('"'))
    })
}

/// Renders a table of all routes, or of the busiest.
pub(super) fn render_requests(requests: &[Requests], look: TextStyle) -> String {
    let sum = |of: fn(&Requests) -> u64| requests.iter().map(of).sum::<u64>();
    let mut lines = vec![format!(
        "requests:     {} since the start, {} refused, {} failed",
        sum(|one| one.count),
        sum(|one| one.refused),
        sum(|one| one.failed)
    )];
    let shown = if look.is_wide { requests.len() } else { SHOWN.min(requests.len()) };
    if 0 < shown {
        let columns =
            [Left("REQUEST"), Right("COUNT"), Right("REFUSED"), Right("FAILED"), Right("MEAN")];
        let rows = requests[..shown].iter().map(|one| {
            let mean = one.mean_us.map_or("waits".to_owned(), millis);
            let numbers = [one.count, one.refused, one.failed].map(|number| number.to_string());
            let [count, refused, failed] = numbers;
            [format!("{} {}", one.method, one.route), count, refused, failed, mean]
        });
        let table = headed(columns, rows, look);
        lines.extend(table.lines().map(|line| format!("  {line}")));
    }
    if shown < requests.len() {
        lines.push(format!("  and {} more; -o wide shows them all", requests.len() - shown));
    }
    lines.join("\n")
}

/// Renders a table of the busiest clients, and the other clients in a single line.
pub(super) fn render_clients(list: &ClientList, look: TextStyle) -> String {
    let shown = if look.is_wide { list.clients.len() } else { SHOWN.min(list.clients.len()) };
    let (shown, more) = list.clients.split_at(shown);
    let numbers = |counts: ClientCounts| {
        [counts.requests, counts.refused, counts.limited].map(|number| number.to_string())
    };
    let mut rows: Vec<[String; 6]> = Vec::new();
    for one in shown {
        let role = one.role.as_deref().unwrap_or("-").to_owned();
        let from = one.address.as_deref().unwrap_or("socket").to_owned();
        let [count, refused, limited] = numbers(one.counts);
        rows.push([one.client.clone(), role, from, count, refused, limited]);
    }
    let mut others = list.other_clients;
    for one in more {
        others.add(one.counts);
    }
    if 0 < others.requests {
        let [count, refused, limited] = numbers(others);
        rows.push(["(others)".to_owned(), String::new(), String::new(), count, refused, limited]);
    }
    let mut lines = vec!["clients:      most requests since the start".to_owned()];
    let columns = [
        Left("CLIENT"),
        Left("ROLE"),
        Left("FROM"),
        Right("COUNT"),
        Right("REFUSED"),
        Right("LIMITED"),
    ];
    let table = headed(columns, rows, look);
    lines.extend(table.lines().map(|line| format!("  {line}")));
    if !more.is_empty() {
        lines.push(format!("  {} of the others by name with -o wide", more.len()));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::wire::ClientInfo;

    const METRICS: &str = "\
# HELP apportion_requests_total Requests by route and answer
# TYPE apportion_requests_total counter
apportion_requests_total{route=\"/v1/jobs/{id}\",method=\"GET\",status=\"200\"} 3
apportion_requests_total{route=\"/v1/jobs/{id}\",method=\"GET\",status=\"404\"} 2
apportion_requests_total{route=\"/v1/schedule\",method=\"GET\",status=\"304\"} 9
apportion_requests_total{route=\"none\",method=\"other\",status=\"500\"} 1
apportion_request_duration_seconds_sum{route=\"/v1/jobs/{id}\"} 0.01
apportion_request_duration_seconds_count{route=\"/v1/jobs/{id}\"} 5
apportion_request_duration_seconds_bucket{route=\"/v1/jobs/{id}\",le=\"+Inf\"} 5
apportion_ready 1
";

    #[test]
    fn requests_are_summed_up_by_route_the_most_frequent_first() {
        let requests = Requests::of(METRICS);
        let figures = requests
            .iter()
            .map(|one| (one.route.as_str(), one.count, one.refused, one.failed, one.mean_us));
        let expected = [
            ("/v1/schedule", 9, 0, 0, None),
            ("/v1/jobs/{id}", 5, 2, 0, Some(2_000)),
            ("none", 1, 0, 1, None),
        ];
        assert_eq!(figures.collect::<Vec<_>>(), expected);
        let shown = render_requests(&requests, TextStyle::default());
        assert!(shown.starts_with("requests:     15 since the start, 2 refused, 1 failed\n"));
        assert!(shown.contains("GET /v1/jobs/{id}      5        2       0  2.0 ms"), "{shown}");
    }

    #[test]
    fn who_asks_most_is_shown_and_the_rest_in_one_line() {
        let one = |number: u64, role: Option<&str>, address: Option<&str>| ClientInfo {
            client: format!("c{number}"),
            role: role.map(str::to_owned),
            address: address.map(str::to_owned),
            counts: ClientCounts { requests: 100 - number, refused: number, limited: 1 },
        };
        let mut list = ClientList {
            clients: vec![one(1, Some("reader"), Some("10.0.0.1")), one(2, None, None)],
            other_clients: ClientCounts::default(),
        };
        let expected = [
            "clients:      most requests since the start",
            "  CLIENT  ROLE    FROM      COUNT  REFUSED  LIMITED",
            "  c1      reader  10.0.0.1     99        1        1",
            "  c2      -       socket       98        2        1",
        ];
        assert_eq!(
            render_clients(&list, TextStyle::default()).lines().collect::<Vec<_>>(),
            expected
        );
        list.clients.extend((3..11).map(|number| one(number, None, None)));
        list.other_clients = ClientCounts { requests: 1_000, refused: 0, limited: 5 };
        let shown = render_clients(&list, TextStyle::default());
        let last: Vec<&str> = shown.lines().rev().take(2).collect();
        assert_eq!(last[0], "  2 of the others by name with -o wide");
        let others: Vec<&str> = last[1].split_whitespace().collect();
        assert_eq!(others, ["(others)", "1181", "19", "7"]);
        let wide = render_clients(&list, TextStyle { is_wide: true, ..TextStyle::default() });
        assert_eq!(wide.lines().count(), 2 + 10 + 1, "{wide}");
    }

    #[test]
    fn what_asks_for_many_things_is_cut_unless_all_are_wanted() {
        let one = Requests::of(METRICS).swap_remove(1);
        let many = vec![one; SHOWN + 3];
        assert!(
            render_requests(&many, TextStyle::default())
                .ends_with("and 3 more; -o wide shows them all")
        );
        let wide = TextStyle { is_wide: true, ..TextStyle::default() };
        assert_eq!(render_requests(&many, wide).lines().count(), 2 + many.len());
        assert_eq!(render_requests(&[], TextStyle::default()).lines().count(), 1);
    }
}
