"""A process that asks the metrics API at a fixed rate: `python -m tests.support.metrics_api_asker PORT CERTIFICATE RATE SECONDS`.

Prints how many milliseconds after it was due each answer was there, and how many were no answer, as JSON.
"""

import http.client
import json
import ssl
import sys
import time

from tests.support.metrics_api_scene import question, selector


def main() -> None:
    """Ask over one connection; each question is due when its time has come, however late the one before was."""
    port, certificate, rate, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(certificate)
    to = http.client.HTTPSConnection("127.0.0.1", int(port), context=context, timeout=60.0)
    late, bad, began = list[float](), 0, time.perf_counter() + 0.5
    for number in range(int(rate * seconds)):
        due = began + number / rate
        if (wait := due - time.perf_counter()) > 0:
            time.sleep(wait)
        path = question("crane_autoscaling_prediction", selector(f"web-{number % 1000}"))
        to.request("GET", path, headers={"X-Remote-User": "hpa"})
        answer = to.getresponse()
        answer.read()
        bad += answer.status != http.client.OK
        late.append((time.perf_counter() - due) * 1000)
    sys.stdout.write(json.dumps({"milliseconds": late, "bad": bad}))


if __name__ == "__main__":
    main()
