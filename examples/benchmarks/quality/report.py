"""report"""


def report(folder):
    pass
