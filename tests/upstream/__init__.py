"""Bugs of Beam, each as a report for its tracker that is a program, and tests that notice when they are fixed."""
