"""From captured packets to the table ``rpcs``: every request and response between two nodes, with what became of it.

``packets`` reads pcap files, ``stream`` puts one direction of a connection together, ``conversation`` finds its messages and their
fate, ``messages`` reads them with kio, ``rows`` makes the table, ``follow`` does all of it while a run goes on. All but the last are
pure: bytes and times in, rows out.
"""
