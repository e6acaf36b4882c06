//! Prometheus' text format from before `OpenMetrics`, for `curl` and for what has not learned the
//! other.
//!
//! In that format a counter or info has the name of its sample. Units and the end mark are absent.

/// `text`, which is `OpenMetrics`, in the older format.
pub(super) fn classic(text: &str) -> String {
    let mut lines = String::with_capacity(text.len());
    let mut help = "";
    for line in text.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("EOF" | "UNIT"), ..) => {}
            (Some("#"), Some("HELP"), _, Some(words)) => help = words,
            (Some("#"), Some("TYPE"), Some(name), Some(kind)) => {
                let (suffix, kind) = match kind {
                    "counter" => ("_total", "counter"),
                    "info" => ("_info", "gauge"),
                    other => ("", other),
                };
                lines.extend(["# HELP ", name, suffix, " ", help, "\n"]);
                lines.extend(["# TYPE ", name, suffix, " ", kind, "\n"]);
            }
            _ => lines.extend([line, "\n"]),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_called_what_their_samples_are_called() {
        let open = "# HELP a_seconds How long it takes.\n# TYPE a_seconds histogram\n# UNIT a_seconds seconds\n\
                    a_seconds_count 1\n# HELP b How many.\n# TYPE b counter\nb_total{x=\"# y\"} 2\n\
                    # HELP c What.\n# TYPE c info\nc_info{v=\"1\"} 1\n# EOF\n";
        let older = "# HELP a_seconds How long it takes.\n# TYPE a_seconds histogram\na_seconds_count 1\n\
                     # HELP b_total How many.\n# TYPE b_total counter\nb_total{x=\"# y\"} 2\n\
                     # HELP c_info What.\n# TYPE c_info gauge\nc_info{v=\"1\"} 1\n";
        assert_eq!(classic(open), older);
    }
}
