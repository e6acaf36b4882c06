//! Remedies of problems: what to change, and where.

use super::error::Code;

/// Remedy of every code. The details of an answer name the values; a remedy holds for all of them.
const REMEDIES: &[(Code, &str)] = &[
    (
        Code::EmptyBody,
        "Send a JSON object as the body. `/openapi.json` describes it for each path.",
    ),
    (
        Code::NotJson,
        "Repair the body at the byte, line and column that `detail` names, for instance with `jq .`.",
    ),
    (Code::TooDeep, "Send objects as `/openapi.json` describes them, without further levels."),
    (
        Code::TooLarge,
        "Send less, or raise `body_bytes` or `max_jobs` in `[daemon.limits]` and restart the daemon.",
    ),
    (
        Code::NotJsonType,
        "Send the header `Content-Type: application/json`, in UTF-8, and no content encoding.",
    ),
    (
        Code::OldSequence,
        "Publish with a `sequence` above the last one that was taken in. After a restart of the orchestrator, send a higher `epoch`.",
    ),
    (
        Code::SequenceReused,
        "Count `sequence` up for each publication with other content. If two orchestrators run, stop one.",
    ),
    (
        Code::SequenceGap,
        "Nothing has to be sent again. If gaps repeat, look in the log of the orchestrator for publications that failed.",
    ),
    (
        Code::BadSequence,
        "Count `sequence` up in small steps from a low number. After a slip, run `apportion publication reset`.",
    ),
    (
        Code::UnknownField,
        "Correct the spelling of the field, or leave it out. `/openapi.json` lists the fields.",
    ),
    (
        Code::DuplicateField,
        "Write the field once in its object. Some JSON libraries write both of two equal keys.",
    ),
    (
        Code::MissingField,
        "Add the field that `pointer` names. `/openapi.json` says which fields are required.",
    ),
    (Code::BadValue, "Change the value that `pointer` names to the type and range in `detail`."),
    (
        Code::DuplicateWork,
        "Publish each job once, and give each job an `id` that no other job has.",
    ),
    (
        Code::Immutable,
        "Publish the job with its first value. To change the value, complete the job and submit one with a new `id`.",
    ),
    (
        Code::UnknownClass,
        "Name a class that `apportion classes` lists, or add the class to the configuration.",
    ),
    (
        Code::NoDefaultClass,
        "Name a `class` in the job, or set `default = true` in one `[[class]]` of its policy.",
    ),
    (Code::UserNotAllowed, "Name another class, or add the user to `users` of that `[[class]]`."),
    (
        Code::PreemptableClass,
        "Name a class with policy `fixed-share` or `reserve`. `apportion classes` shows the policies.",
    ),
    (Code::BadMemory, "Write `memory_mb` as a whole number of MiB, at least 1, without a unit."),
    (
        Code::MemoryOutOfRange,
        "Ask for less memory in each process, or let the pool have a larger `quantum` in the configuration.",
    ),
    (
        Code::BadThreads,
        "Write `threads` as a whole number, at least 1, within the range in `detail`.",
    ),
    (
        Code::BadRemaining,
        "Publish in `remaining` the work items that are left, within the range in `detail`.",
    ),
    (
        Code::BadMaximum,
        "Write `max_processes` as a whole number, at least 1, or leave it out for no maximum.",
    ),
    (
        Code::BadTime,
        "Publish the time in milliseconds, or leave it out if it is not known. A reservation ends after its start and after now, and starts within 8 weeks.",
    ),
    (
        Code::BadTags,
        "Write `tags` as an object of short strings, at most 32, such as `{\"gpu\": \"a100\"}`.",
    ),
    (Code::BadChunks, "Give 1 to 64 chunks, each with at least one process and its memory."),
    (
        Code::BadSizes,
        "List sizes that lie between the minimum and the maximum of processes, ascending, each once.",
    ),
    (
        Code::GangNotAllowed,
        "Submit to one of the classes in `detail`, or allow gangs in that `[[class]]`.",
    ),
    (Code::TooLong, "Declare a shorter duration, or submit to a class that allows a longer one."),
    (Code::OnlyUrgent, "Submit the job with `apportion urgent`, or publish it in another class."),
    (
        Code::UnissuedShare,
        "Publish only shares that the schedule issued. After a store was lost, end the process; its memory counts as taken until then.",
    ),
    (
        Code::MovedShare,
        "Publish the process on the node of its share. End it if it runs elsewhere.",
    ),
    (Code::DuplicateShare, "Publish each share once, in the job that the schedule gave it to."),
    (
        Code::ReturnedShare,
        "Publish a process as `gone` only after its exit. End this process, or publish it as `gone` again.",
    ),
    (
        Code::OverdueShare,
        "End the process: its share is in `removed` of the schedule. Then publish it as `gone`.",
    ),
    (
        Code::ProcessOnUnknownNode,
        "Start the agent of the node, or correct the name of the node in the publication.",
    ),
    (
        Code::CompletedButLive,
        "Publish a job as `completed` after all its processes are `gone`. Publish those as `gone` now.",
    ),
    (
        Code::BadUser,
        "Send a name of letters, digits and `._-@+$`, no longer than `max_string` in `[daemon.limits]`.",
    ),
    (
        Code::SuddenlyEmpty,
        "Look whether the orchestrator lost its records. If no work is left, publish with `full: true`.",
    ),
    (
        Code::AbsentWork,
        "Publish the processes again, or as `gone`, or their jobs as `completed`. `full: true` says that all else is over.",
    ),
    (
        Code::GivenUp,
        "End the processes that still run: their memory is given to other jobs. Publish each process until it is `gone`.",
    ),
    (
        Code::VanishedWork,
        "If jobs are missing by mistake, publish them again. If they are over, publish them as `completed` first.",
    ),
    (
        Code::OtherPublisher,
        "Stop the other orchestrator, or hand over to this one: `apportion orchestrator hand-over --to NAME`.",
    ),
    (
        Code::BadNodeMemory,
        "Report the memory of the node in MiB, at least 1. Look at `apportion agent --check` on the node.",
    ),
    (
        Code::Replayed,
        "Send each heartbeat once, with a `sequence` that grows. A retry of a heartbeat that arrived needs no remedy.",
    ),
    (
        Code::TwoAgents,
        "Stop one of the two agents, or start it under a name of its own: `apportion agent --node NAME`.",
    ),
    (
        Code::TooManyNodes,
        "Raise `max_nodes` in `[daemon.limits]`, list the node in a `[[nodepool]]`, or forget nodes that are gone.",
    ),
    (
        Code::BadNodeName,
        "Report a name of letters, digits and `._-` that begins with neither `.` nor `-`.",
    ),
    (
        Code::UnknownNode,
        "Correct the name: `apportion nodes` lists the nodes that reported. Start the agent of a new node first.",
    ),
    (
        Code::BadNodeList,
        "Correct the entry that `pointer` names. A host list is written as `node[01-04,7]`.",
    ),
    (
        Code::UnconfirmedNodes,
        "Name the nodes of the act. If every node is meant, send `all: true`, or `--all` to the command.",
    ),
    (
        Code::NodeReports,
        "Stop the agent of the node first. To take the node out of use, vary it off.",
    ),
    (
        Code::NodeInUse,
        "Vary the node off, and wait until `apportion node show` lists no share on it.",
    ),
    (
        Code::ReservationExists,
        "Delete the other first, with `apportion reservation delete`, or give another name.",
    ),
    (
        Code::ReservationOverlaps,
        "Choose other nodes, or another time. `apportion reservation list` shows what is kept.",
    ),
    (
        Code::ReservationBlocked,
        "Choose other nodes or another time; or repeat with `--force`: the work stays, and the reservation starts without these nodes.",
    ),
    (
        Code::TooManyReservations,
        "Delete reservations that are not needed, with `apportion reservation delete`.",
    ),
    (
        Code::UrgentRefused,
        "Ask for less, or later: a refused request is not kept. Shares that are never preempted have to end first.",
    ),
    (
        Code::JobIsKnown,
        "Give the urgent job a number that no other job has. A job that waits does not become urgent.",
    ),
    (
        Code::BadReason,
        "Give a reason in one line, with `--reason`. It may be as long as `max_string` in `[daemon.limits]`.",
    ),
    (
        Code::WrongConfiguration,
        "Correct the places in `errors`. `apportion config check FILE` names them all with line and remedy.",
    ),
    (Code::UnknownGeneration, "Name a generation that `apportion config history` lists."),
    (
        Code::UnreadableConfiguration,
        "Let the user of the daemon read the file, at the path in `detail`, on the machine of the daemon.",
    ),
    (
        Code::UnknownJob,
        "Name a job that `apportion queue` lists. For a job that is over, ask for an earlier `cycle`.",
    ),
    (
        Code::UnknownReservation,
        "Name a reservation that `apportion reservation list` shows. One that is over is not kept.",
    ),
    (
        Code::EventsGone,
        "Read `/v1/schedule`, which has all that is now, and go on from its header `apportion-sequence`.",
    ),
    (
        Code::CycleNotOnRecord,
        "Name a cycle within the range in `detail`. `cycles` in `[daemon.journal]` says how many are kept.",
    ),
    (
        Code::BadTransport,
        "Send plain HTTP/1.1 with one `Host` header and a whole body. Look at proxies on the way.",
    ),
    (
        Code::NoSuchPath,
        "Correct the path or the method. `/openapi.json` lists all paths, each with its methods.",
    ),
    (Code::NoSuchMethod, "Use a method that the header `allow` of the answer lists."),
    (
        Code::TimedOut,
        "Ask again after the time in the header `retry-after`. If that repeats, look at the load of the head node.",
    ),
    (
        Code::BadParameter,
        "Correct the parameter that `detail` names. `/openapi.json` lists the parameters of each path.",
    ),
    (
        Code::Internal,
        "Look in the log of the daemon, and report the lines there with what `apportion diag` writes.",
    ),
    (
        Code::NotKnown,
        "Send a token that the daemon knows, as `Authorization: Bearer TOKEN`, or log in. `apportion token new` makes one.",
    ),
    (
        Code::NotAllowed,
        "Use a token whose role may do this. `apportion token new --role` makes one, and docs/access.md lists the roles.",
    ),
    (
        Code::TooOften,
        "Wait for the seconds in the header `retry-after`. Rates for each role are in `[daemon.limits]`.",
    ),
    (
        Code::BodyTooSlow,
        "Send the body without pauses. Look at the network between the client and the daemon.",
    ),
    (
        Code::NotReady,
        "Wait for the first cycle, and ask again. `/readyz?verbose` says what is missing.",
    ),
    (
        Code::Stopping,
        "Ask again when the daemon is back. Its unit starts it again after a restart or an upgrade.",
    ),
];

impl Code {
    /// Returns what to change, and where, in a sentence or two.
    pub fn remedy(self) -> &'static str {
        REMEDIES.iter().find(|(code, _)| *code == self).map_or("", |(_, remedy)| remedy)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_code_has_a_remedy_of_its_own() {
        let remedies: BTreeSet<&str> = Code::ALL.into_iter().map(Code::remedy).collect();
        let lacking: Vec<Code> =
            Code::ALL.into_iter().filter(|code| code.remedy().is_empty()).collect();
        assert_eq!(lacking, []);
        assert_eq!(remedies.len(), Code::ALL.len(), "two codes share a remedy");
        assert_eq!(REMEDIES.len(), Code::ALL.len(), "a code has two remedies");
    }

    #[test]
    fn every_code_has_a_name_of_its_own() {
        let names: BTreeSet<&str> = Code::ALL.into_iter().map(Code::name).collect();
        // An unknown path and an unknown method share a name, with a status each.
        assert_eq!(names.len() + 1, Code::ALL.len());
    }

    #[test]
    fn remedies_are_short_sentences() {
        for (code, remedy) in REMEDIES {
            assert!(remedy.ends_with('.'), "{code:?}: {remedy}");
            for sentence in remedy.split_inclusive(". ") {
                let words = sentence.split_whitespace().count();
                assert!(words <= 20, "{code:?}: {words} words: {sentence}");
            }
        }
    }
}
