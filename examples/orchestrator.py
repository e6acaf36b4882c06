#!/usr/bin/env python3
"""An orchestrator in sixty lines: each argument is a job of one process, started on this machine.

    apportion serve --dev &                      # a daemon on 127.0.0.1:7070, without a file
    apportion agent &                            # this machine is its node
    python3 examples/orchestrator.py 'echo a' 'sleep 2; echo b'
It starts a process in each share that is added, stops the process of each share that is removed, and publishes.
"""
import json, os, subprocess, sys, time, urllib.error, urllib.request
URL = os.environ.get("APPORTION_URL", "http://127.0.0.1:7070")
MEMORY_MB = int(os.environ.get("MEMORY_MB", "256"))

def call(method, path, body=None):
    data, headers = body and json.dumps(body).encode(), {"content-type": "application/json"}
    try:
        return json.load(urllib.request.urlopen(urllib.request.Request(URL + path, data, headers, method=method)))
    except urllib.error.HTTPError as error:
        if error.code != 503:  # Each refusal names its place and its remedy.
            sys.exit(error.read().decode())
    time.sleep(1)  # The daemon is starting.
    return call(method, path, body)

start = int(time.time() * 1000)  # Numbers of jobs are never used again: they begin with the time.
jobs = {start + n: {"command": command, "left": 1, "processes": {}} for n, command in enumerate(sys.argv[1:])}

def publish(sequence):
    work = []
    for number, job in jobs.items():
        ran = job["processes"].values()
        work.append({
            "id": number, "kind": "job", "user": os.environ.get("USER", "nobody"), "memory_mb": MEMORY_MB,
            "state": "completed" if not job["left"] else "running" if ran else "schedulable",
            "remaining": job["left"], "max_processes": 1, "submitted_ms": start,
            "processes": [{key: process[key] for key in ("share", "node", "state")} for process in ran]})
    # The epoch grows with each start: publications are numbered from 1 again.
    body = {"publisher": "example", "epoch": start, "sequence": sequence, "work": work}
    for problem in call("PUT", "/v1/publication", body)["refused"]:
        sys.exit(f"refused: {problem}")

sequence = 1
while any(job["left"] for job in jobs.values()):
    publish(sequence)
    for told in call("GET", "/v1/schedule")["jobs"]:
        job = jobs.get(told["id"], {"processes": {}})
        for share in told["added"]:
            if share["share"] not in job["processes"]:
                child = subprocess.Popen(job["command"], shell=True)
                job["processes"][share["share"]] = {**share, "child": child, "state": "running"}
        for share in told["removed"]:  # The job gets another share as soon as there is space.
            if share["share"] in job["processes"]:
                job["processes"][share["share"]]["child"].terminate()
    for job in jobs.values():
        for process in job["processes"].values():
            if process["state"] == "running" and process["child"].poll() is not None:
                process["state"] = "gone"
                if process["child"].returncode >= 0:  # It ended by itself; a stopped one runs again.
                    job["left"] = 0
    time.sleep(0.5)
    sequence += 1
publish(sequence)
