//! Problems for clients: every code, and the only place that builds answers from them.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::api::wire::{ItemProblem, Problem};

// The statuses that most problems have, by shorter names.
const BAD: StatusCode = StatusCode::BAD_REQUEST;
const CONFLICT: StatusCode = StatusCode::CONFLICT;
const REFUSED: StatusCode = StatusCode::UNPROCESSABLE_ENTITY;
const MEDIA_TYPE: StatusCode = StatusCode::UNSUPPORTED_MEDIA_TYPE;
const NO_METHOD: StatusCode = StatusCode::METHOD_NOT_ALLOWED;
const ABSENT: StatusCode = StatusCode::NOT_FOUND;
const TOO_MANY: StatusCode = StatusCode::TOO_MANY_REQUESTS;
const UNAVAILABLE: StatusCode = StatusCode::SERVICE_UNAVAILABLE;

/// Name, status and title of every code.
const FACTS: &[(Code, &str, StatusCode, &str)] = &[
    (Code::EmptyBody, "P001", BAD, "the body is empty"),
    (Code::NotJson, "P002", BAD, "the body is not JSON"),
    (Code::TooDeep, "P003", BAD, "the body is nested too deeply"),
    (Code::TooLarge, "P004", StatusCode::PAYLOAD_TOO_LARGE, "the body is too large"),
    (Code::NotJsonType, "P005", MEDIA_TYPE, "the content type is not JSON"),
    (Code::OldSequence, "P010", CONFLICT, "the publication is older than the last"),
    (Code::SequenceGap, "P012", CONFLICT, "publications are missing"),
    (Code::SequenceReused, "P011", CONFLICT, "two publications with one sequence number"),
    (Code::BadSequence, "P014", BAD, "the sequence number is not valid"),
    (Code::UnknownField, "P015", BAD, "unknown field"),
    (Code::DuplicateField, "P016", BAD, "a field is given twice"),
    (Code::MissingField, "P017", BAD, "a required field is absent"),
    (Code::BadValue, "P018", BAD, "a value has the wrong type or range"),
    (Code::DuplicateWork, "P020", REFUSED, "two jobs with one number"),
    (Code::Immutable, "P021", REFUSED, "something changed that never changes"),
    (Code::UnknownClass, "P022", REFUSED, "the class is not defined"),
    (Code::NoDefaultClass, "P023", REFUSED, "no class, and no default class for it"),
    (Code::UserNotAllowed, "P024", REFUSED, "the user may not use the class"),
    (Code::PreemptableClass, "P025", REFUSED, "it may not go to a fair-share class"),
    (Code::BadMemory, "P026", BAD, "the memory is not valid"),
    (Code::MemoryOutOfRange, "P027", REFUSED, "the memory cannot be counted in quanta"),
    (Code::BadThreads, "P028", BAD, "the number of threads is not valid"),
    (Code::BadRemaining, "P029", BAD, "the number of work items is out of range"),
    (Code::BadMaximum, "P030", BAD, "the maximum of processes is not valid"),
    (Code::BadTime, "P031", BAD, "a time cannot be"),
    (Code::BadTags, "P032", BAD, "a tag is not valid"),
    (Code::BadChunks, "P033", BAD, "the chunks are not valid"),
    (Code::BadSizes, "P034", BAD, "the sizes are not valid"),
    (Code::GangNotAllowed, "P035", REFUSED, "the class takes no gangs"),
    (Code::TooLong, "P036", REFUSED, "the duration is above the longest of the class"),
    (Code::OnlyUrgent, "P037", REFUSED, "the class takes urgent work only"),
    (Code::UnissuedShare, "P040", CONFLICT, "the share was never issued"),
    (Code::MovedShare, "P041", CONFLICT, "the share was issued on another node"),
    (Code::DuplicateShare, "P042", REFUSED, "one share in two places"),
    (Code::ReturnedShare, "P043", CONFLICT, "the share had ended"),
    (Code::OverdueShare, "P044", CONFLICT, "the share is terminating"),
    (Code::ProcessOnUnknownNode, "P045", CONFLICT, "the process is on an unknown node"),
    (Code::CompletedButLive, "P046", CONFLICT, "completed work has live processes"),
    (Code::BadUser, "P050", BAD, "the user's name is not valid"),
    (Code::SuddenlyEmpty, "P051", CONFLICT, "all work is suddenly gone"),
    (Code::AbsentWork, "P052", CONFLICT, "processes are absent"),
    (Code::GivenUp, "P053", CONFLICT, "absent processes are given up"),
    (Code::VanishedWork, "P055", CONFLICT, "much work vanished"),
    (Code::OtherPublisher, "P054", CONFLICT, "another orchestrator's publications count"),
    (Code::BadNodeMemory, "H002", BAD, "the node's memory is not valid"),
    (Code::Replayed, "H004", CONFLICT, "the heartbeat was sent before"),
    (Code::TwoAgents, "H005", CONFLICT, "two agents report as one node"),
    (Code::TooManyNodes, "H007", TOO_MANY, "too many nodes"),
    (Code::BadNodeName, "H008", BAD, "the node's name is not valid"),
    (Code::UnknownNode, "A001", ABSENT, "the node is unknown"),
    (Code::BadNodeList, "A002", BAD, "the list of nodes has a bad entry"),
    (Code::UnconfirmedNodes, "A003", BAD, "no node, or every node"),
    (Code::NodeReports, "A006", CONFLICT, "the node reports"),
    (Code::NodeInUse, "A007", CONFLICT, "the node is in use"),
    (Code::ReservationExists, "A008", CONFLICT, "another reservation has the name"),
    (Code::ReservationOverlaps, "A009", CONFLICT, "another reservation keeps the nodes"),
    (Code::ReservationBlocked, "A010", CONFLICT, "work is in the way of the reservation"),
    (Code::TooManyReservations, "A011", CONFLICT, "too many reservations"),
    (Code::UrgentRefused, "A012", CONFLICT, "the urgent work is refused"),
    (Code::JobIsKnown, "A013", CONFLICT, "another job has the number"),
    (Code::BadReason, "A005", BAD, "the reason is missing or not valid"),
    (Code::WrongConfiguration, "G001", REFUSED, "the configuration is wrong"),
    (Code::UnknownGeneration, "G002", ABSENT, "the configuration is not on record"),
    (Code::UnreadableConfiguration, "G003", REFUSED, "the configuration cannot be read"),
    (Code::UnknownJob, "Q001", ABSENT, "the work is unknown"),
    (Code::BadTransport, "T001", BAD, "the request is not plain HTTP"),
    (Code::EventsGone, "Q002", StatusCode::GONE, "the events are not kept any more"),
    (Code::CycleNotOnRecord, "Q003", ABSENT, "the cycle is not on record"),
    (Code::UnknownReservation, "Q004", ABSENT, "the reservation is unknown"),
    (Code::NoSuchPath, "T002", ABSENT, "no such path"),
    (Code::NoSuchMethod, "T002", NO_METHOD, "no such method on this path"),
    (Code::TimedOut, "T004", UNAVAILABLE, "it took too long"),
    (Code::BadParameter, "T005", BAD, "a parameter cannot be read"),
    (Code::Internal, "T006", StatusCode::INTERNAL_SERVER_ERROR, "our fault"),
    (Code::NotKnown, "T009", StatusCode::UNAUTHORIZED, "not known"),
    (Code::NotAllowed, "T010", StatusCode::FORBIDDEN, "not allowed"),
    (Code::TooOften, "T011", TOO_MANY, "too often"),
    (Code::BodyTooSlow, "T012", StatusCode::REQUEST_TIMEOUT, "the body comes too slowly"),
    (Code::NotReady, "T007", UNAVAILABLE, "nothing is scheduled yet"),
    (Code::Stopping, "T008", UNAVAILABLE, "the daemon is stopping"),
];

/// Every kind of problem. The names are stable: clients and runbooks refer to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// An empty body.
    EmptyBody,
    /// A body that is not JSON.
    NotJson,
    /// Arrays and objects within each other, too many levels.
    TooDeep,
    /// More bytes than allowed.
    TooLarge,
    /// The content type is not JSON.
    NotJsonType,
    /// An older publication than the last.
    OldSequence,
    /// Numbers were left out between two publications.
    SequenceGap,
    /// Two publications with the same number.
    SequenceReused,
    /// An invalid sequence number.
    BadSequence,
    /// An unknown field.
    UnknownField,
    /// A field given twice.
    DuplicateField,
    /// A required field is absent.
    MissingField,
    /// A value of the wrong type or outside its range, in a field without a code of its own.
    BadValue,
    /// Two jobs with the same number.
    DuplicateWork,
    /// A changed value in a field that never changes.
    Immutable,
    /// No such class.
    UnknownClass,
    /// No class named, and no class is the default.
    NoDefaultClass,
    /// A class that this user may not use.
    UserNotAllowed,
    /// A job that must not be preempted, in a class that preempts.
    PreemptableClass,
    /// An invalid amount of memory.
    BadMemory,
    /// More memory than can be counted.
    MemoryOutOfRange,
    /// An invalid number of threads.
    BadThreads,
    /// A number of work items out of range.
    BadRemaining,
    /// A maximum of no processes.
    BadMaximum,
    /// A time that cannot be; taken as unknown.
    BadTime,
    /// Tags that cannot be.
    BadTags,
    /// Chunks that cannot be.
    BadChunks,
    /// Sizes of an elastic job that cannot be.
    BadSizes,
    /// Several processes at once, in a class that does not allow it.
    GangNotAllowed,
    /// A duration above the longest of the class.
    TooLong,
    /// A publication brought work of a class that takes urgent work only.
    OnlyUrgent,
    /// A share that was never issued.
    UnissuedShare,
    /// A share on another node than it was issued on.
    MovedShare,
    /// The same share in two places.
    DuplicateShare,
    /// A share that had ended and is shown alive.
    ReturnedShare,
    /// A share that is terminating for long and still has a process.
    OverdueShare,
    /// A process on a node that never reported.
    ProcessOnUnknownNode,
    /// A completed job with live processes.
    CompletedButLive,
    /// An invalid name of a user.
    BadUser,
    /// All jobs are suddenly gone.
    SuddenlyEmpty,
    /// Processes that a publication leaves out.
    AbsentWork,
    /// Processes that publications left out for too long.
    GivenUp,
    /// Many jobs without processes vanished.
    VanishedWork,
    /// A publication of another orchestrator than the accepted orchestrator.
    OtherPublisher,
    /// A node's memory that cannot be it.
    BadNodeMemory,
    /// A heartbeat that was sent before.
    Replayed,
    /// Two agents under the same name.
    TwoAgents,
    /// More nodes than allowed.
    TooManyNodes,
    /// An invalid name of a node.
    BadNodeName,
    /// A node that never reported.
    UnknownNode,
    /// A bad name in a list; nothing was done.
    BadNodeList,
    /// No node, or all of them unconfirmed.
    UnconfirmedNodes,
    /// A node that reports cannot be lost or forgotten.
    NodeReports,
    /// A node that is in use cannot be forgotten.
    NodeInUse,
    /// A reservation whose name another has.
    ReservationExists,
    /// A reservation of nodes that another keeps at the same time.
    ReservationOverlaps,
    /// A reservation of nodes on which work stays.
    ReservationBlocked,
    /// More reservations than allowed.
    TooManyReservations,
    /// Urgent work for which there is no space, or that may not be.
    UrgentRefused,
    /// Urgent work with the number of another job.
    JobIsKnown,
    /// A missing or invalid reason.
    BadReason,
    /// A configuration that is wrong.
    WrongConfiguration,
    /// A configuration that was never in effect, or is no longer stored.
    UnknownGeneration,
    /// The configuration file cannot be read.
    UnreadableConfiguration,
    /// No such job.
    UnknownJob,
    /// A request that can be understood in two ways, or that did not arrive whole.
    BadTransport,
    /// Events that are not kept any more.
    EventsGone,
    /// A past cycle that is not on record.
    CycleNotOnRecord,
    /// No such reservation.
    UnknownReservation,
    /// No such path.
    NoSuchPath,
    /// No such method on this path.
    NoSuchMethod,
    /// A request that took too long.
    TimedOut,
    /// A parameter of the address that cannot be read.
    BadParameter,
    /// A fault of the daemon.
    Internal,
    /// A caller without a known identity.
    NotKnown,
    /// A caller without the needed permission.
    NotAllowed,
    /// A caller that asks too often.
    TooOften,
    /// The body comes too slowly.
    BodyTooSlow,
    /// No schedule is available yet.
    NotReady,
    /// On its way down.
    Stopping,
}

impl Code {
    /// All there are.
    pub const ALL: [Code; 80] = [
        Code::EmptyBody,
        Code::NotJson,
        Code::TooDeep,
        Code::TooLarge,
        Code::NotJsonType,
        Code::OldSequence,
        Code::SequenceGap,
        Code::SequenceReused,
        Code::BadSequence,
        Code::UnknownField,
        Code::DuplicateField,
        Code::MissingField,
        Code::BadValue,
        Code::DuplicateWork,
        Code::Immutable,
        Code::UnknownClass,
        Code::NoDefaultClass,
        Code::UserNotAllowed,
        Code::PreemptableClass,
        Code::BadMemory,
        Code::MemoryOutOfRange,
        Code::BadThreads,
        Code::BadRemaining,
        Code::BadMaximum,
        Code::BadTime,
        Code::BadTags,
        Code::BadChunks,
        Code::BadSizes,
        Code::GangNotAllowed,
        Code::TooLong,
        Code::OnlyUrgent,
        Code::UnissuedShare,
        Code::MovedShare,
        Code::DuplicateShare,
        Code::ReturnedShare,
        Code::OverdueShare,
        Code::ProcessOnUnknownNode,
        Code::CompletedButLive,
        Code::BadUser,
        Code::SuddenlyEmpty,
        Code::AbsentWork,
        Code::GivenUp,
        Code::VanishedWork,
        Code::OtherPublisher,
        Code::BadNodeMemory,
        Code::Replayed,
        Code::TwoAgents,
        Code::TooManyNodes,
        Code::BadNodeName,
        Code::UnknownNode,
        Code::BadNodeList,
        Code::UnconfirmedNodes,
        Code::NodeReports,
        Code::NodeInUse,
        Code::ReservationExists,
        Code::ReservationOverlaps,
        Code::ReservationBlocked,
        Code::TooManyReservations,
        Code::UrgentRefused,
        Code::JobIsKnown,
        Code::BadReason,
        Code::WrongConfiguration,
        Code::UnknownGeneration,
        Code::UnreadableConfiguration,
        Code::UnknownJob,
        Code::BadTransport,
        Code::EventsGone,
        Code::CycleNotOnRecord,
        Code::UnknownReservation,
        Code::NoSuchPath,
        Code::NoSuchMethod,
        Code::TimedOut,
        Code::BadParameter,
        Code::Internal,
        Code::NotKnown,
        Code::NotAllowed,
        Code::TooOften,
        Code::BodyTooSlow,
        Code::NotReady,
        Code::Stopping,
    ];

    /// Returns the stable name, the status of an answer that fails for it, and its title.
    fn facts(self) -> (&'static str, StatusCode, &'static str) {
        let found = FACTS.iter().find(|(code, ..)| *code == self);
        let (_, name, status, title) = found.expect("a test holds that every code is there");
        (name, *status, title)
    }

    /// Returns the stable name.
    pub fn name(self) -> &'static str {
        self.facts().0
    }

    /// The status of an answer that fails for it, and its title.
    pub fn meaning(self) -> (StatusCode, &'static str) {
        let (_, status, title) = self.facts();
        (status, title)
    }
}

/// A problem in a place of the request. It fails the request if the request has no other part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestFault {
    /// Kind of problem.
    pub code: Code,
    /// Place: a JSON pointer.
    pub pointer: String,
    /// Description of the problem and of its remedy.
    pub detail: String,
}

impl RequestFault {
    /// A fault at `pointer`.
    pub fn new(code: Code, pointer: impl Into<String>, detail: impl Into<String>) -> RequestFault {
        RequestFault { code, pointer: pointer.into(), detail: detail.into() }
    }

    /// The same, found in a part of the body that begins at `prefix`.
    #[must_use]
    pub fn within(mut self, prefix: &str) -> RequestFault {
        self.pointer.insert_str(0, prefix);
        self
    }
}

impl From<RequestFault> for ItemProblem {
    fn from(fault: RequestFault) -> ItemProblem {
        ItemProblem {
            pointer: fault.pointer,
            code: fault.code.name().to_owned(),
            detail: fault.detail,
        }
    }
}

/// Reason why a request failed.
#[derive(Clone, Debug)]
pub struct ApiError {
    code: Code,
    detail: String,
    errors: Vec<ItemProblem>,
}

impl ApiError {
    /// A failure that no single place of the body is at fault for.
    pub fn new(code: Code, detail: impl Into<String>) -> ApiError {
        ApiError { code, detail: detail.into(), errors: Vec::new() }
    }

    /// A failure with all the places that are at fault.
    pub fn with(code: Code, detail: impl Into<String>, errors: Vec<ItemProblem>) -> ApiError {
        ApiError { code, detail: detail.into(), errors }
    }

    /// What kind of problem it is.
    pub fn code(&self) -> Code {
        self.code
    }

    /// The status it answers with.
    pub fn status(&self) -> StatusCode {
        self.code.facts().1
    }

    /// Returns the description of the problem and of its remedy.
    pub fn detail(&self) -> &str {
        &self.detail
    }
}

impl From<RequestFault> for ApiError {
    fn from(fault: RequestFault) -> ApiError {
        ApiError { code: fault.code, detail: fault.detail.clone(), errors: vec![fault.into()] }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (name, status, title) = self.code.facts();
        let problem = Problem {
            kind: format!("/errors/{name}"),
            title: title.to_owned(),
            status: status.as_u16(),
            detail: self.detail,
            code: name.to_owned(),
            errors: self.errors,
        };
        let mut response = (status, Json(problem)).into_response();
        let problem_json = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, problem_json);
        if status == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Bearer realm=\"apportion\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
